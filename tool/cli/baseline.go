package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) baselineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "baseline PID",
		Short: "Have a process remember what it holds now, for profiles of what comes after",
		Long: `Have a process remember what each of its stacks holds now: its baseline, of which it has one. Afterwards
` + "`seemalloc top PID --kind since`" + ` and ` + "`seemalloc profile PID --kind since`" + ` show what has been allocated since, and what more,
or less, is in use. No file is needed.`,
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
			fmt.Fprintf(a.out, "%s: baseline set; `seemalloc top --kind since` shows what changes from now on\n", t.name)
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
