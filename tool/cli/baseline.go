package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) baselineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "baseline PID",
		Short: "Set a baseline in a process, for profiles of later changes",
		Long: `Record the live memory of each stack of a process as its baseline. A process has one baseline. Afterwards
` + "`seemalloc top PID --kind since`" + ` and ` + "`seemalloc profile PID --kind since`" + ` show the allocations
since then, and the growth or shrinkage of live memory. No file is needed.`,
		Example: `  seemalloc baseline 4242
  seemalloc top 4242 --kind since`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error {
			t, _, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			if _, err := t.Call("baseline"); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s: baseline set; `seemalloc top --kind since` shows the changes from now on\n", t.name)
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
