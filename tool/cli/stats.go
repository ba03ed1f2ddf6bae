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
		Short: "Show the composition of a process's resident memory",
		Long: `Show the composition of a process's resident memory: live, cached, fragmentation, metadata and not ours add up to RSS.
Then sampling, calls into the kernel, and the size classes in use.

cached consists of free blocks in free lists of threads and of free pages that are still backed by memory. Free blocks
inside spans are part of fragmentation. Blocks count with their allocated size (docs/glossary.md). The kernel is asked
which pages are resident; where that does not determine the parts exactly, a line states the maximum error.`,
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
