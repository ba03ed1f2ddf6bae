package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"seemalloc/tool/library"
)

// The exit statuses that a shell returns for the same failures.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

type runFlags struct {
	sample, conf, lib string
	minimal           bool
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENTS…]",
		Short: "Start a program on seemalloc",
		Long: `Start a program on seemalloc, by LD_PRELOAD. The program replaces this command, so signals and the exit status are the
program's own. Options for the allocator come from --conf and --sample, and otherwise from SEEMALLOC_CONF; ` + "`seemalloc help options`" + ` lists them. The control socket is open from the start (at_start:1).`,
		Example: `  seemalloc run -- redis-server --port 7777
  seemalloc run --sample 64K -- python3 job.py
  seemalloc run --conf purge_delay:250,dump_at_exit:/tmp/job.%p.pb.gz -- ./job`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which program? Give its command line")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.run(flags, args) },
	}
	c.Flags().StringVar(&flags.sample, "sample", "", "mean bytes between two heap samples (512K); 1 records every allocation, 0 none")
	flags.register(c, "")
	c.Flags().BoolVar(&flags.minimal, "minimal", false, "use the variant without profiler")
	c.Flags().SetInterspersed(false) // flags after the program's name belong to the program
	return c
}

// register adds the flags of all subcommands that start a program. The text `when` precedes each description.
func (flags *runFlags) register(c *cobra.Command, when string) {
	c.Flags().StringVar(&flags.conf, "conf", "", when+"options for the allocator, as name:value,…")
	c.Flags().StringVar(&flags.lib, "lib", "", when+"the library to use, a file or a folder")
}

var sizePattern = regexp.MustCompile(`^[0-9]+[KMGTkmgt]?$`)

// check validates the values of the flags.
func (flags runFlags) check() error {
	if flags.sample != "" && !sizePattern.MatchString(flags.sample) {
		return usageError("--sample %s: expected a number of bytes, such as 512K, 1M, 1 or 0", flags.sample)
	}
	if flags.minimal && flags.sample != "" {
		return usageError("--sample has no effect with --minimal, which has no profiler")
	}
	for _, item := range strings.Split(flags.conf, ",") {
		if flags.conf != "" && !strings.Contains(item, ":") {
			return usageError("--conf: %q is not of the form name:value; `seemalloc help options` lists the names", item)
		}
	}
	return nil
}

// add appends an option that the tool itself needs. It comes after the user's options because the last value wins.
func (flags *runFlags) add(conf string) {
	if flags.conf != "" {
		conf = flags.conf + "," + conf
	}
	flags.conf = conf
}

// find returns the paths of the program and of the library. It warns if the library cannot be loaded into the program.
func (a *app) find(flags runFlags, args []string) (path, lib string, err error) {
	name := library.Full
	if flags.minimal {
		name = library.Minimal
	}
	if lib, err = library.Find(name, flags.lib); err != nil {
		return "", "", err
	}
	if path, err = executable(args[0]); err != nil {
		return "", "", err
	}
	if reason := otherLibc(path, lib); reason != "" {
		return "", "", exitError{errors.New(reason), exitNotExecutable}
	}
	if reason := unsupportedExecutable(path); reason != "" {
		a.warn("warning: " + reason)
	}
	return path, lib, nil
}

// executionError explains why the program at path could not be started.
func executionError(path string, err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return exitError{noLoader(path), exitNotFound}
	}
	return exitError{fmt.Errorf("%s: cannot be executed: %w", path, err), exitNotExecutable}
}

func noLoader(path string) error {
	return fmt.Errorf("%s: its interpreter or loader is missing: check its first line, or `file %s`", path, path)
}

// executable finds the program called name. Its error has the exit status that a shell would return.
func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", exitError{fmt.Errorf("%s: not an executable file: `chmod +x` makes it executable", name), exitNotExecutable}
	}
	return "", exitError{fmt.Errorf("%s: command not found: check the name and $PATH", name), exitNotFound}
}

func (a *app) run(flags runFlags, args []string) error {
	if err := flags.check(); err != nil {
		return err
	}
	path, lib, err := a.find(flags, args)
	if err != nil {
		return err
	}
	return executionError(path, syscall.Exec(path, args, environment(os.Environ(), lib, flags)))
}

// environment returns env with the library first in LD_PRELOAD and the options merged: first ours, then those already
// in env, then those of the flags. In the core the last value of an option wins.
func environment(env []string, lib string, flags runFlags) []string {
	preload, conf := []string{lib}, []string{"at_start:1"}
	out := make([]string, 0, len(env)+2)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case "LD_PRELOAD":
			for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
				if item != lib {
					preload = append(preload, item)
				}
			}
		case "SEEMALLOC_CONF":
			if value != "" {
				conf = append(conf, value)
			}
		default:
			out = append(out, variable)
		}
	}
	if flags.conf != "" {
		conf = append(conf, flags.conf)
	}
	if flags.sample != "" {
		conf = append(conf, "sample:"+flags.sample)
	}
	return append(out, "LD_PRELOAD="+strings.Join(preload, ":"), "SEEMALLOC_CONF="+strings.Join(conf, ","))
}
