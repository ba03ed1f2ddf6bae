package report

import (
	"maps"

	"github.com/google/pprof/profile"
)

// Neighbours are the functions next to one function in the stacks, each with the values at an index of the stacks that go
// from one to the other; largest first. A stack counts once for each pair, however often the function calls itself.
type Neighbours struct {
	// The name "" stands for no caller: the function is where its stacks begin.
	Callers, Callees []Named
	Flat, Cum        int64 // of the function itself
}

// Around finds what calls the function and what it calls.
func Around(p *profile.Profile, index int, function string) Neighbours {
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
		maps.DeleteFunc(values, func(_ string, value int64) bool { return value == 0 }) // of a difference, where all has cancelled out
	}
	n.Callers, n.Callees = largestFirst(callers), largestFirst(callees)
	return n
}
