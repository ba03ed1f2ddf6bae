package doctor

import (
	"testing"

	"github.com/google/pprof/profile"
)

// Several rows may have one key: blocks that were sampled at other sizes and resized to one. What they have grown by is the
// growth of their sum; and a row is the same when the option `sample` has changed meanwhile.
func TestGrowthOfRowsOfOneKey(t *testing.T) {
	types := []string{"alloc_space"}
	look := func(period int64, values ...int64) *profile.Profile {
		rows := []row{{function: "grows", bytes: 128, values: []int64{0}}}
		p := madeProfile(types, rows)
		p.Period = period
		one := *p.Sample[0]
		p.Sample = nil
		for _, v := range values {
			s := one
			s.Value = []int64{v}
			s.NumLabel = map[string][]int64{"bytes": {128}}
			p.Sample = append(p.Sample, &s)
		}
		return p
	}
	labelled := look(64*kib, 7000, 100)
	labelled.Sample[0].NumLabel["interval"] = []int64{512 * kib}
	for name, of := range map[string]struct {
		before, after *profile.Profile
		want          float64
	}{
		"both grow":           {look(512*kib, 1000, 3000), look(512*kib, 2000, 5000), 3000},
		"in another order":    {look(512*kib, 3000, 1000), look(512*kib, 2000, 5000), 3000},
		"a new one":           {look(512*kib, 3000), look(512*kib, 3000, 500), 500},
		"nothing":             {look(512*kib, 1000, 3000), look(512*kib, 1000, 3000), 0},
		"another interval":    {look(512*kib, 5000), labelled, 2100},
		"less, by being read": {look(512*kib, 5000), look(512*kib, 4000), 0},
	} {
		by, sum := growth(of.before, of.after, "alloc_space", 1), 0.0
		for _, s := range of.after.Sample {
			sum += by(s)
		}
		if sum != of.want {
			t.Errorf("%s: %g, want %g", name, sum, of.want)
		}
	}
}
