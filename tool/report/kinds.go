package report

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Named is what something with a name has: a memory pool of the program's, or pools of one name together; a function.
type Named struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// largestFirst lists sums by size, not by sign; equal ones by name.
func largestFirst(sums map[string]int64) []Named {
	var list []Named
	for name, value := range sums {
		list = append(list, Named{name, value})
	}
	slices.SortFunc(list, func(a, b Named) int {
		if a.Value != b.Value {
			return compareDown(a.Value, b.Value)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// Pools adds up the values of a sample type by the label of memory pools, largest first; none when the profile has no such label.
func Pools(p *profile.Profile, sampleType string) []Named {
	index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sampleType })
	if index < 0 {
		return nil
	}
	sums := map[string]int64{}
	for _, sample := range p.Sample {
		for _, name := range sample.Label["pool"] {
			sums[name] += sample.Value[index]
		}
	}
	return largestFirst(sums)
}
