package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) dumpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dump PID [NAME]",
		Short: "Write a heap profile to a file, as the process itself does",
		Long: `Write a heap profile to a file. Without NAME the process writes it, as on a signal, to the place that its own options
determine (dump_prefix and dump_names). With NAME this tool fetches the profile and writes it, as the user and in the
folder of the tool; NAME may contain %p (the process id), %n (the lowest number that gives a new file) and %t (seconds
since 1970). Prints the name of the file. It contains addresses and build ids but no symbols; ` + "`seemalloc top FILE`" + ` finds them.`,
		Example: `  seemalloc dump 4242
  seemalloc dump 4242 /var/tmp/before-%t.heap.pb`,
		Args: a.pidArgs(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, rest, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			path, err := t.dump(rest)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, path)
			return nil
		},
	}
	a.targetFlags(c)
	return c
}

func (t *target) dump(names []string) (string, error) {
	if len(names) == 0 {
		path, err := t.Call("dump")
		return strings.TrimRight(string(path), "\n"), err
	}
	data, err := t.Call("profile", "heap")
	if err != nil {
		return "", err
	}
	path := dumpName(names[0], t.pid, time.Now())
	return path, writeFile(path, data)
}

// dumpName replaces %p, %n, %t and %% in the name of a dump. %n is the lowest number without an existing file.
func dumpName(pattern string, pid int, now time.Time) string {
	for n, before := 1, ""; ; n++ {
		count := strconv.Itoa(n)
		name := strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid), "%t", strconv.FormatInt(now.Unix(), 10), "%n", count).Replace(pattern)
		if _, err := os.Lstat(name); err != nil || name == before {
			return name
		}
		before = name
	}
}
