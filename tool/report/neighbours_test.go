package report

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// stacksOf builds a profile with one value: bytes by stack, outermost function first.
func stacksOf(rows map[string]int64) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}}
	for stack, bytes := range rows {
		sample := &profile.Sample{Value: []int64{bytes}}
		for _, name := range strings.Fields(stack) {
			line := profile.Line{Function: &profile.Function{Name: name}}
			sample.Location = append([]*profile.Location{{Line: []profile.Line{line}}}, sample.Location...)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestNeighbours(t *testing.T) {
	p := stacksOf(map[string]int64{"main walk": 1, "main walk walk read": 10, "main walk walk walk": 100, "other read": 1000, "walk": 10000, "main": 5})
	for function, want := range map[string]Neighbours{
		// A stack in which walk calls itself counts once with walk as its own caller and once with walk as its callee.
		"walk": {Callers: []Named{{"", 10000}, {"main", 111}, {"walk", 110}}, Callees: []Named{{"walk", 110}, {"read", 10}}, Flat: 10101, Cum: 10111},
		"read": {Callers: []Named{{"other", 1000}, {"walk", 10}}, Flat: 1010, Cum: 1010},
		"none": {},
	} {
		if got := NeighboursOf(p, 0, function); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", function, got, want)
		}
	}
}
