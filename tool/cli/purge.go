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
		Short: "Give a process's free memory back to the system now",
		Long: `Give a process's free memory back to the system now, without waiting for the purge delay and whatever the option
purge says. What sleeping threads keep goes too, but for a few blocks of each size that only they can give.`,
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
				text = report.Bytes(float64(released)) + " given back"
			}
			fmt.Fprintln(a.out, text)
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
