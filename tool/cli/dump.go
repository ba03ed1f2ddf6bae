package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) dumpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dump PID [NAME]",
		Short: "Have a process write a heap profile into a file of its own",
		Long: `Have a process write a heap profile into a file, with its own rights and in its own folder. NAME may hold %p (the process
id), %n (a count) and %t (seconds since 1970); without NAME the file is named as automatic profiles are (options dump_prefix and
dump_names). Prints the name of the file. It has addresses and build ids, no names; ` + "`seemalloc top FILE`" + ` finds those.

Where the process cannot write to any disk, ` + "`seemalloc profile PID`" + ` gets the same over its control socket.`,
		Example: `  seemalloc dump 4242
  seemalloc dump 4242 /var/tmp/before-%t.heap.pb`,
		Args: a.pidArgs(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, rest, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			path, err := t.Call("dump", rest...)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, strings.TrimRight(string(path), "\n"))
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
