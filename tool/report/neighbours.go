package report

import (
	"maps"

	"github.com/google/pprof/profile"
)

// Neighbours holds the direct callers and callees of one function, the largest first. A value is the sum, at one index,
// over the stacks in which the two functions are adjacent. A stack counts once per pair, even if the function recurses.
type Neighbours struct {
	// The name "" means no caller: the function is the outermost of its stacks.
	Callers, Callees []Named
	Flat, Cum        int64 // of the function itself
}

// NeighboursOf returns the callers and callees of the function.
func NeighboursOf(p *profile.Profile, index int, function string) Neighbours {
	callers, callees := map[string]int64{}, map[string]int64{}
	var n Neighbours
	for _, sample := range p.Sample {
		value := sample.Value[index]
		if value == 0 {
			continue
		}
		stack := Frames(sample)
		found := false
		above, below := map[string]bool{}, map[string]bool{}
		for depth, frame := range stack {
			if frame.Name != function {
				continue
			}
			found = true
			if depth == 0 {
				n.Flat += value
			} else {
				below[stack[depth-1].Name] = true
			}
			caller := ""
			if depth+1 < len(stack) {
				caller = stack[depth+1].Name
			}
			above[caller] = true
		}
		if found {
			n.Cum += value
		}
		for name := range above {
			callers[name] += value
		}
		for name := range below {
			callees[name] += value
		}
	}
	for _, values := range []map[string]int64{callers, callees} {
		maps.DeleteFunc(values, func(_ string, value int64) bool { return value == 0 }) // in a difference, values that cancelled out
	}
	n.Callers, n.Callees = largestFirst(callers), largestFirst(callees)
	return n
}
