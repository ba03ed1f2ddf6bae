package report

import (
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

func TestStatedError(t *testing.T) {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "fragmentation_objects", Unit: "count"}, {Type: "fragmentation_space", Unit: "bytes"}},
		Sample:     []*profile.Sample{{Value: []int64{1, 10}}},
		Comments:   []string{"of no use", "fragmentation: 12 bytes free, exactly; 10 bytes charged, standard error 345 bytes; the rest"},
	}
	if value, found := StatedError(p, 1); !found || value != 345 {
		t.Errorf("got %g, %v", value, found)
	}
	if _, found := StatedError(p, 0); found {
		t.Error("the error of the objects is not stated")
	}
	p.Comments = p.Comments[:1]
	if _, found := StatedError(p, 1); found {
		t.Error("found where there is none")
	}
}

func TestPools(t *testing.T) {
	sample := func(pool string, value int64) *profile.Sample {
		s := &profile.Sample{Value: []int64{value}}
		if pool != "" {
			s.Label = map[string][]string{"pool": {pool}}
		}
		return s
	}
	types := []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}
	p := &profile.Profile{SampleType: types, Sample: []*profile.Sample{sample("a", 1), sample("b", 5), sample("", 9), sample("a", 2), sample("c", 3)}}
	want := []Named{{"b", 5}, {"a", 3}, {"c", 3}}
	if got := Pools(p, "inuse_space"); !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
	if got := Pools(p, "alloc_space"); got != nil {
		t.Errorf("got %v of what is not there", got)
	}
}
