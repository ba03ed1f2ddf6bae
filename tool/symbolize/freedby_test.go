package symbolize

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// joinedProfile builds a profile with one row per stack. Functions are listed from leaf to root.
func joinedProfile(stacks ...string) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "freed_objects", Unit: "count"}}}
	known := map[string]*profile.Location{}
	for _, stack := range stacks {
		sample := &profile.Sample{Value: []int64{1}}
		for _, name := range strings.Split(stack, "; ") {
			loc := known[name]
			if loc == nil {
				function := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
				p.Function = append(p.Function, function)
				loc = &profile.Location{ID: function.ID, Line: []profile.Line{{Function: function}}}
				p.Location = append(p.Location, loc)
				known[name] = loc
			}
			sample.Location = append(sample.Location, loc)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func stacksOf(p *profile.Profile) (stacks []string) {
	for _, sample := range p.Sample {
		var names []string
		for _, loc := range sample.Location {
			names = append(names, loc.Line[0].Function.Name)
		}
		stacks = append(stacks, strings.Join(names, "; "))
	}
	return stacks
}

func TestBothStacksOfADeathEndAtTheCaller(t *testing.T) {
	p := joinedProfile(
		"drop; main; (freed by); make; main",
		"seemalloc::profile::record_free; free; drop; main; (freed by); seemalloc::allocate_slow(unsigned long); malloc; make; main",
		"(freed by); operator new(unsigned long); make; main", // the freeing stack is unknown
		"malloc; make; main", // drop_frames handles these
		"seemalloc_pool_alloc; free; (freed by); malloc")
	Profile(p, Files{})
	want := []string{"drop; main; (freed by); make; main", "drop; main; (freed by); make; main", "(freed by); make; main", "malloc; make; main", "(freed by)"}
	if got := stacksOf(p); !slices.Equal(got, want) {
		t.Errorf("%q\nexpected\n%q", got, want)
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
}
