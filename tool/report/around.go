package report

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Neighbours are the functions next to one function in the stacks, each with the values at an index of the stacks that go
// from one to the other; largest first. A stack counts once for each pair, however often the function calls itself.
type Neighbours struct {
	Callers, Callees []Neighbour
	Flat, Cum        int64 // of the function itself
}

// Neighbour is one of them; the name "" stands for no caller: the function is where its stacks begin.
type Neighbour struct {
	Name  string
	Value int64
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
	n.Callers, n.Callees = largestFirst(callers), largestFirst(callees)
	return n
}

func largestFirst(values map[string]int64) []Neighbour {
	var list []Neighbour
	for name, value := range values {
		if value != 0 { // of a difference, where all has cancelled out
			list = append(list, Neighbour{name, value})
		}
	}
	slices.SortFunc(list, func(a, b Neighbour) int {
		if a.Value != b.Value {
			return compareDown(a.Value, b.Value)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}
