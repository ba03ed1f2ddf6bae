package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

func (a *app) statsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats PID",
		Short: "Show where a process's resident memory is",
		Long: `Show where a process's resident memory is: live, cached, fragmentation, metadata and not ours add up to RSS. Then
sampling, what was asked of the system, and the size classes in use.

cached is free blocks in threads' lists and free pages that are still backed by memory; the column of that name of
'seemalloc stat' is without these pages (its column dirty has them) and with the free blocks inside spans, which are
in fragmentation here. Blocks count by their allocated size (docs/glossary.md). The kernel is asked which pages are
resident; where that does not tell whose they are, a line says by how much the parts may be off.`,
		Example: `  seemalloc stats 4242
  seemalloc stats 4242 --json | jq .memory`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error {
			t, _, err := a.dial(args)
			if err != nil {
				return err
			}
			defer t.Close()
			payload, err := t.Call("stats")
			if err != nil {
				return err
			}
			stats, err := attach.ParseStats(payload, t.name)
			if err != nil {
				return err
			}
			mappings := attach.ReadMappings(t.pid)
			if asJSON {
				// The library's own JSON, so that fields unknown to this tool are preserved.
				var indented bytes.Buffer
				if err := json.Indent(&indented, mappings.AddTo(payload), "", "  "); err != nil {
					return err
				}
				fmt.Fprintln(a.out, indented.String())
				return nil
			}
			fmt.Fprint(a.out, report.Stats(stats, t.name, mappings))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.targetFlags(c)
	return c
}
