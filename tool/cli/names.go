package cli

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// acceptNames lets the commands below root that take a process id also take the name of a process.
func (a *app) acceptNames(root *cobra.Command) {
	for _, c := range root.Commands() {
		names := 0
		switch {
		case c.Name() == "diff":
			names = 2
		case strings.Contains(c.Use, "PID"):
			names = 1
		}
		if check := c.Args; names > 0 && check != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				if err := a.replaceNames(c, args, names); err != nil {
					return err
				}
				return check(c, args)
			}
		}
	}
}

// replaceNames replaces those of the first arguments that are names of processes by process ids. Ids, existing files and
// unknown names stay as they are. A program file and a script name the processes that run them: they are no profiles.
func (a *app) replaceNames(c *cobra.Command, args []string, count int) error {
	if a.socket != "" {
		return nil
	}
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		count = min(count, dash)
	}
	for i := range min(count, len(args)) {
		name := args[i]
		find := attach.Named
		if isProgram(name) {
			find = attach.Running
		} else if strings.HasSuffix(name, ".py") {
			name = filepath.Base(name)
		} else if _, err := os.Stat(name); err == nil || isNumber(name) || name == "-" || strings.Contains(name, "/") {
			continue
		}
		switch found := find(name); len(found) {
		case 0:
		case 1:
			args[i] = strconv.Itoa(found[0].PID)
		default:
			a.listNamed(found)
			return exitError{fmt.Errorf("%d processes on seemalloc are called or run %s: give the id of one", len(found), name), exitFailure}
		}
	}
	return nil
}

// isProgram reports whether a file is a program of ELF.
func isProgram(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, len(elf.ELFMAG))
	n, _ := file.Read(magic)
	return string(magic[:n]) == elf.ELFMAG
}

// listNamed prints a table of processes to standard error.
func (a *app) listNamed(found []*attach.Process) {
	table := tabwriter.NewWriter(a.err, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PID\tUPTIME\tCOMMAND")
	for _, p := range found {
		fmt.Fprintf(table, "%d\t%s\t%s\n", p.PID, report.Duration(p.Uptime()), shorten(p.Command()))
	}
	_ = table.Flush()
}
