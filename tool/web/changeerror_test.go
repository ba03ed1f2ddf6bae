package web

import (
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// A profile and itself differ by nothing, without error. Profiles without counts of allocations cannot be paired.
func TestErrorOfAChange(t *testing.T) {
	p := heapOf(time.Unix(1e9, 0), map[string]int64{"holds": 1e6})
	p.Period = 512 << 10
	if s, err := NewStacks(p, p.Copy()); err != nil || s.ChangeErrors != nil {
		t.Errorf("%v, %v", s.ChangeErrors, err)
	}
	p.Mapping = []*profile.Mapping{{ID: 1, Start: 1 << 20, Limit: 1 << 21, BuildID: "1"}}
	for _, loc := range p.Location {
		loc.Address = 1<<20 + loc.ID
	}
	p.SampleType = append(p.SampleType, &profile.ValueType{Type: "alloc_objects", Unit: "count"}, &profile.ValueType{Type: "alloc_space", Unit: "bytes"})
	for _, sample := range p.Sample {
		sample.Value = append(sample.Value, sample.Value...)
		sample.NumLabel = map[string][]int64{"bytes": {100}}
	}
	s, err := NewStacks(p, p.Copy())
	if err != nil || len(s.ChangeErrors) != 4 || s.ChangeErrors[1] != 0 || s.Errors[1] <= 0 {
		t.Fatalf("%v, %v", s.ChangeErrors, err)
	}
	later := p.Copy()
	for v := range later.Sample[0].Value {
		later.Sample[0].Value[v] *= 2
	}
	if s, err = NewStacks(later, p); err != nil || !(s.ChangeErrors[1] > 0 && s.ChangeErrors[1] < s.Errors[1]) {
		t.Errorf("%v of %v, %v", s.ChangeErrors, s.Errors, err)
	}
}
