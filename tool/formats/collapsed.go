package formats

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/google/pprof/profile"
)

// writeCollapsed writes one sample type as sorted lines `outermost;…;innermost VALUE`, one per stack of functions.
func writeCollapsed(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	sums := map[string]int64{}
	for _, sample := range p.Sample {
		sums[rootFirst(stackOf(sample))] += sample.Value[o.Index]
	}
	var stacks []string
	var left Omitted
	for stack, value := range sums {
		left.add(value)
		if value > 0 {
			stacks = append(stacks, stack)
		}
	}
	slices.Sort(stacks)
	out := bufio.NewWriter(w)
	for _, stack := range stacks {
		fmt.Fprintf(out, "%s %d\n", stack, sums[stack])
	}
	return left, out.Flush()
}
