package doctor

import (
	"testing"

	"github.com/google/pprof/profile"
)

// Several rows may have the same key: blocks that were sampled at different sizes and resized to the same size. Their
// growth is the growth of their sum. A row remains the same if the option `sample` changes in between.
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
		by, sum := increase(of.before, of.after, "alloc_space", 1), 0.0
		for _, s := range of.after.Sample {
			sum += by(s)
		}
		if sum != of.want {
			t.Errorf("%s: %g, want %g", name, sum, of.want)
		}
	}
}

// A library that is unloaded between the two snapshots has its stacks at other addresses afterwards.
func TestUnloadingALibraryIsNoGrowth(t *testing.T) {
	look := func(start uint64) *profile.Profile {
		p := madeProfile([]string{"alloc_space"}, []row{{function: "gone", bytes: 128, values: []int64{5000}}})
		mapping := &profile.Mapping{ID: 1, Start: start, Limit: start + 0x1000, Offset: 0x2000, BuildID: "af01"}
		p.Mapping = []*profile.Mapping{mapping}
		for _, loc := range p.Sample[0].Location {
			loc.Mapping, loc.Address = mapping, start+0x123
		}
		return p
	}
	before, after := look(0x7f0000000000), look(0x7100000000000000)
	if grown := increase(before, after, "alloc_space", 1)(after.Sample[0]); grown != 0 {
		t.Errorf("%v bytes a second", grown)
	}
}
