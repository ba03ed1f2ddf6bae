package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) setCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "set PID NAME=VALUE",
		Short: "Change an option of a process while it runs",
		Long: `Change an option of a process while it runs. ` + "`seemalloc help options`" + ` lists them; this command
cannot change those marked "at start" or "by the program only". Prints the option's new value.`,
		Example: `  seemalloc set 4242 sample=64K
  seemalloc set 4242 purge=eager
  seemalloc set 4242 delay=250
  seemalloc set 4242 delay=auto`,
		Args: func(c *cobra.Command, args []string) error {
			if err := a.pidArgs(1, 1)(c, args); err != nil {
				return err
			}
			if last := args[len(args)-1]; strings.IndexByte(last, '=') <= 0 {
				return fmt.Errorf("%q is not of the form NAME=VALUE", last)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			t, rest, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			name, value, _ := strings.Cut(rest[0], "=")
			if _, err := t.Call("set", name, value); err != nil {
				return err
			}
			now, err := t.Call("get", name)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s=%s\n", name, strings.TrimRight(string(now), "\n"))
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
