package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seemalloc/tool/report"
)

func (a *app) purgeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "purge PID",
		Short: "Return a process's free memory to the OS now",
		Long: `Return a process's free memory to the OS now, without waiting for the purge delay and regardless of the option purge.
This includes the caches of sleeping threads, except for a few blocks of each size that only they can return.`,
		Example: `  seemalloc purge 4242`,
		Args:    a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error {
			t, _, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			payload, err := t.Call("purge")
			if err != nil {
				return err
			}
			text := strings.TrimSpace(string(payload))
			if released, err := strconv.ParseInt(text, 10, 64); err == nil {
				text = report.Bytes(float64(released)) + " returned to the OS"
			}
			fmt.Fprintln(a.out, text)
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
