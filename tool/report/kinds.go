package report

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Named is a value with a name: of a memory pool, of all pools with the same name, or of a function.
type Named struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// largestFirst sorts sums by absolute value, and equal ones by name.
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

// Pools sums the values of a sample type by memory pool, the largest first. It returns nothing if the profile has no
// pool labels.
func Pools(p *profile.Profile, sampleType string) []Named {
	index := Column(p, sampleType)
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
