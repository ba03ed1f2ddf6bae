package report

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Pool is what one memory pool of the program's has, or pools of one name together.
type Pool struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Pools adds up the values of a sample type by the label of memory pools, largest first; none when the profile has no such label.
func Pools(p *profile.Profile, sampleType string) []Pool {
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
	var pools []Pool
	for name, value := range sums {
		pools = append(pools, Pool{name, value})
	}
	slices.SortFunc(pools, func(a, b Pool) int {
		if a.Value != b.Value {
			return compareDown(a.Value, b.Value)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return pools
}
