// Package cli holds the seemalloc commands, one file each, and their shared code.
//
// All commands follow the same rules:
//   - Standard output has results only.
//   - A failure is one line on standard error, "seemalloc: …", which names the problem and the remedy.
//   - The exit status is 1 for a failure, 2 for a usage error, and 3 if doctor has findings.
package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Version is this tool's version. The library's version is queried from a process.
const Version = "0.1.0"

const (
	exitFailure = 1
	exitUsage   = 2
)

// app is one run of the tool.
type app struct {
	out, err io.Writer
	// started is set once a command's flags and arguments have been checked. Errors before that are usage errors.
	started bool
	socket  string
	timeout time.Duration
	// Additional places to search for debug information and symbols.
	debugDirs, perfMaps []string
}

// exitError carries a specific exit status. Nothing is printed if it wraps no error.
type exitError struct {
	error
	status int
}

// usageError returns an error for an invalid command line that only the command itself can detect.
func usageError(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitUsage}
}

// Main runs the tool and returns its exit status.
func Main(args []string, out, err io.Writer) int {
	a := &app{out: out, err: err}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(err)
	command, failure := root.ExecuteC()
	if failure == nil {
		return 0
	}
	status := exitFailure
	var withStatus exitError
	if errors.As(failure, &withStatus) {
		status = withStatus.status
		if withStatus.error == nil {
			return status
		}
	} else if !a.started {
		status = exitUsage
	}
	text := oneLine(failure.Error())
	if status == exitUsage {
		text += fmt.Sprintf(" (see `%s --help`)", command.CommandPath())
	}
	a.warn(text)
	return status
}

// Commands returns the tool's commands, for documents that are made from them.
func Commands() *cobra.Command { return (&app{out: io.Discard, err: io.Discard}).root() }

// warn writes one line to standard error.
func (a *app) warn(text string) { fmt.Fprintln(a.err, "seemalloc: "+text) }

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " ")), " ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "seemalloc",
		Short: "Run programs on the seemalloc allocator and inspect their memory",
		Long: `seemalloc is a memory allocator that can be inspected while it runs.

Start a program on it with ` + "`seemalloc run`" + `. Then ` + "`seemalloc doctor`" + ` finds problems, ` + "`seemalloc top`" + ` shows which functions
hold the memory, and ` + "`seemalloc web`" + ` shows both in the browser.

PID is a process id or the name of a process that runs on seemalloc. If several have the name, they are listed.`,
		Example: `  seemalloc run -- redis-server --port 7777
  seemalloc doctor 4242
  seemalloc top 4242`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // a mistyped command reaches RunE
		Version:       Version,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.started = true
			return a.setUpNames()
		},
		RunE: func(root *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(root, "command", args[0])
			}
			return root.Help()
		},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID("Others")
	cobra.EnableCommandSorting = false
	for _, group := range a.commandGroups() {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, command := range group.commands {
			command.GroupID = group.title
			root.AddCommand(command)
		}
	}
	root.AddCommand(a.optionsTopic())
	a.acceptNames(root)
	return root
}

// commandGroup is a task, with the commands for it in the order of the help.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

func (a *app) commandGroups() []commandGroup {
	return []commandGroup{
		{"Start here", []*cobra.Command{a.runCommand(), a.psCommand(), a.doctorCommand(), a.topCommand(), a.webCommand()}},
		{"Which code holds the memory", []*cobra.Command{a.treeCommand(), a.peekCommand(), a.listCommand(), a.growthCommand(), a.diffCommand(), a.baselineCommand()}},
		{"Profiles in files", []*cobra.Command{a.profileCommand(), a.dumpCommand(), a.convertCommand(), a.reportCommand()}},
		{"Where RSS and CPU time go", []*cobra.Command{a.statsCommand(), a.activityCommand(), a.mapCommand(), a.traceCommand(), a.cpuCommand()}},
		{"Change a process", []*cobra.Command{a.getCommand(), a.setCommand(), a.purgeCommand()}},
		{"Others", []*cobra.Command{a.compareCommand(), a.versionCommand()}},
	}
}

// helpCommand is cobra's help command, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Explain a command or a topic",
		Example: `  seemalloc help top
  seemalloc help options`,
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknown(c.Root(), "command or topic", args[0])
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

// unknown returns the error for a mistyped word, with similar words as suggestions.
func unknown(root *cobra.Command, kind, word string) error {
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(word); len(near) > 0 {
		return usageError("no %s is called %q; did you mean %s?", kind, word, strings.Join(near, " or "))
	}
	return usageError("no %s is called %q", kind, word)
}
