package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) getCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "get PID [NAME]",
		Short: "Show the options of a process",
		Long:  `Show one option of a running process, or all of them. ` + "`seemalloc help options`" + ` explains each.`,
		Example: `  seemalloc get 4242
  seemalloc get 4242 sample`,
		Args: a.pidArgs(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, rest, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			if len(rest) == 1 {
				value, err := t.Call("get", rest[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, strings.TrimRight(string(value), "\n"))
				return nil
			}
			lines, err := t.Call("options")
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(table, "NAME\tVALUE\tDEFAULT\tWHEN\tEXPECTED")
			for line := range strings.Lines(string(lines)) {
				fields := append(strings.Split(strings.TrimRight(line, "\n"), "\t"), make([]string, 6)...)
				for i := range fields[:5] {
					if fields[i] == "" {
						fields[i] = "-"
					}
				}
				fmt.Fprintln(table, strings.Join(fields[:5], "\t"))
			}
			return table.Flush()
		},
	}
	a.targetFlags(c)
	return c
}
