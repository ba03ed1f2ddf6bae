package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "version [PID]",
		Short: "Show the version of this tool, or of the library in a process",
		Long:  `Show the version of this tool, or with a process id, that of the library in the process.`,
		Example: `  seemalloc version
  seemalloc version 4242`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return a.pidArgs(0, 0)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			fmt.Fprintf(a.out, "seemalloc %s (%s %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if len(args) == 0 && a.socket == "" {
				return nil
			}
			t, _, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			text, err := t.Call("version")
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s: %s\n", t.name, strings.TrimSpace(string(text)))
			return nil
		},
	}
	a.targetFlags(c)
	return c
}
