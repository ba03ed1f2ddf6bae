package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

type mapFlags struct {
	asJSON, spans bool
	rows          int
}

func (a *app) mapCommand() *cobra.Command {
	var flags mapFlags
	c := &cobra.Command{
		Use:   "map PID",
		Short: "Show the address space of a heap: regions, spans, free memory, and the stacks that pin it",
		Long: `Show the address space of a process's heap: each region (2 MiB) with the state of its pages, by default the regions with
the most free memory in half-empty spans; then the huge blocks. --spans lists each span of these regions with its size
class, how full it is, how long it has been idle, and the stack that pins it: that of the oldest sampled block that is in
the span, or would be if it were not sampled, with its age.

The heading shows the resident memory, with the values of ` + "`seemalloc stats`" + `. All other values come from heap
metadata and include nonresident memory.

A picture of a region has 64 characters of 32 KiB: # full, + more than half full, - less, . almost empty, L large block,
d free with memory, a blank free without memory, o purged inside spans.`,
		Example: `  seemalloc map 4242
  seemalloc map 4242 --spans -n 1              # the region with most free memory in spans, span by span
  seemalloc map 4242 --json | jq -s '[.[].parts[]? | select(.is == "small" and .live == 1)]'`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error { return a.heapMap(flags, args) },
	}
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object for the resident memory, per region (sorted by address, with its parts), per huge block and per retained range")
	c.Flags().BoolVar(&flags.spans, "spans", false, "print the spans of each region shown")
	c.Flags().IntVarP(&flags.rows, "rows", "n", 20, "print this many regions, and huge blocks; 0: all")
	a.targetFlags(c)
	return c
}

func (a *app) heapMap(flags mapFlags, args []string) error {
	if flags.rows < 0 {
		return usageError("-n %d: expected 0 or more", flags.rows)
	}
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	heap, err := attach.FetchMap(t.Client)
	if err != nil {
		return err
	}
	namer := symbolize.NewNamer(t.pid)
	if flags.asJSON {
		return a.heapMapJSON(t, heap, namer)
	}
	shown := report.MostFragmented(heap.Regions, flags.rows)
	fmt.Fprint(a.out, report.MapText(t.name, heap))
	err = attach.EachRegion(t.Client, shown, func(m *attach.Map, r attach.MapRegion) error {
		_, err := fmt.Fprint(a.out, report.MapRegionText(m, r))
		if err == nil && flags.spans {
			_, err = fmt.Fprint(a.out, report.MapSpansText(m, r, functionOfPin(namer, m)))
		}
		return err
	})
	if err != nil {
		return err
	}
	if left := len(heap.Regions) - len(shown); left > 0 {
		fmt.Fprintf(a.out, "(%s more regions: -n 0 shows all)\n", report.Count(int64(left)))
	}
	_, err = fmt.Fprint(a.out, report.MapHugeText(heap, flags.rows))
	return err
}

// functionOfPin names the function that allocated the pin's blocks.
func functionOfPin(namer *symbolize.Namer, m *attach.Map) func(attach.MapPin) string {
	return func(pin attach.MapPin) string {
		frames := m.Stacks[pin.Stack]
		if len(frames) == 0 {
			return ""
		}
		registerFrames(namer, m, frames)
		if stack := namer.Stack(frames); len(stack) > 0 {
			return stack[0].String()
		}
		return "(no stack)"
	}
}

// registerFrames registers the frames of a map's stack with the namer.
func registerFrames(namer *symbolize.Namer, m *attach.Map, frames []uint64) {
	for _, frame := range frames {
		if place, ok := m.Python[frame]; ok {
			namer.SetPlace(frame, symbolize.Place(place))
		}
	}
	namer.Resolve(frames)
}

// heapMapJSON prints the regions as the process sends them, with symbols in place of code addresses.
func (a *app) heapMapJSON(t *target, heap *attach.Map, namer *symbolize.Namer) error {
	out := json.NewEncoder(a.out)
	if heap.Memory != nil {
		if err := out.Encode(struct {
			Memory *attach.Memory `json:"memory"`
		}{heap.Memory}); err != nil {
			return err
		}
	}
	named := map[string]bool{}
	stacks := func(m *attach.Map) error {
		for id, frames := range m.Stacks {
			if named[id] {
				continue
			}
			named[id] = true
			registerFrames(namer, m, frames)
			line := struct {
				Stack  string      `json:"stack"`
				Frames []jsonPlace `json:"frames"`
			}{id, []jsonPlace{}}
			for _, p := range namer.Stack(frames) {
				line.Frames = append(line.Frames, jsonPlace(p))
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}
	err := attach.EachRegion(t.Client, heap.Regions, func(m *attach.Map, r attach.MapRegion) error {
		if err := stacks(m); err != nil {
			return err
		}
		return out.Encode(r)
	})
	if err != nil {
		return err
	}
	if err := stacks(heap); err != nil {
		return err
	}
	for _, block := range heap.Blocks {
		if err := out.Encode(block); err != nil {
			return err
		}
	}
	for _, kept := range heap.Retained {
		if err := out.Encode(kept); err != nil {
			return err
		}
	}
	return nil
}
