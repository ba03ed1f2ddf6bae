package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

var standardError = regexp.MustCompile(`standard error (\d+) bytes`)

// StatedError is the standard error of the total that the profile states itself, for values whose error cannot be found from
// the values: a block is charged more or less of what others left free around it.
func StatedError(p *profile.Profile, index int) (float64, bool) {
	if p.SampleType[index].Type != "fragmentation_space" {
		return 0, false
	}
	for _, comment := range p.Comments {
		if found := standardError.FindStringSubmatch(comment); found != nil {
			value, err := strconv.ParseFloat(found[1], 64)
			return value, err == nil
		}
	}
	return 0, false
}

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
