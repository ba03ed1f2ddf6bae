package web

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// profileOf makes a profile of stacks (innermost first) with their values and labels.
func profileOf(types []string, rows ...func(*profile.Profile) *profile.Sample) *profile.Profile {
	p := &profile.Profile{Comments: []string{"says"}}
	for _, name := range types {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "count"})
	}
	for _, row := range rows {
		p.Sample = append(p.Sample, row(p))
	}
	return p
}

func row(stack []string, labels map[string]string, values ...int64) func(*profile.Profile) *profile.Sample {
	return func(p *profile.Profile) *profile.Sample {
		sample := &profile.Sample{Value: values, Label: map[string][]string{}, NumLabel: map[string][]int64{"mean": {500}, "least": {5}, "most": {900}}}
		for _, name := range stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			sample.Location = append(sample.Location, l)
		}
		for key, value := range labels {
			sample.Label[key] = []string{value}
		}
		return sample
	}
}

func TestLifetimesAddUpByStack(t *testing.T) {
	here, there := []string{"make", "here", "main"}, []string{"make", "there", "main"}
	lived := profileOf([]string{"alive_objects", "alive_space", "freed_objects", "freed_space"},
		row(here, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 10, 1000),
		row(here, map[string]string{"lifetime": "1s to 10s", "freed_by": "another thread"}, 0, 0, 2, 200),
		row(here, map[string]string{"lifetime": "alive"}, 7, 700, 0, 0),
		row(there, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 3, 30))
	churn := profileOf([]string{"alloc_objects", "moved_objects", "short_objects", "short_space"},
		row(here, nil, 19, 1, 10, 1000), row(there, nil, 3, 0, 3, 30))
	got := newLifetimes(lived, churn)
	if got.Alive != 7 || got.Freed[0] != 13 || got.Freed[7] != 2 || got.Bytes[0] != 1030 || got.Bytes[7] != 200 {
		t.Errorf("%+v", got)
	}
	want := lifetimeRow{Stack: here, Alive: 7, Freed: 12, FreedB: 1200, Elsewhere: 2, Least: 5, Mean: 500, Most: 900,
		Ages: []int64{10, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, ShortBlocks: 10, ShortBytes: 1000, Moved: 1}
	if len(got.Rows) != 2 || !reflect.DeepEqual(got.Rows[0], want) {
		t.Errorf("got  %+v\nwant %+v", got.Rows, want)
	}
	if report.AgeClasses[got.Short-1] != "1ms to 10ms" || len(got.Classes) != len(got.Freed) {
		t.Errorf("%d of %v are short", got.Short, got.Classes)
	}
}

// Who frees: the program's own function, also where a container does it; the most blocks count; and nothing where nobody looked.
func TestWhoFreesIsFoundByStack(t *testing.T) {
	here, there := []string{"make", "here", "main"}, []string{"make", "there", "main"}
	answer := newLifetimes(profileOf([]string{"alive_objects", "alive_space", "freed_objects", "freed_space"},
		row(here, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 12, 1200),
		row(there, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 3, 30)), profileOf(nil))
	joined := func(freed, made []string, objects int64) func(*profile.Profile) *profile.Sample {
		return row(slices.Concat(freed, []string{"(freed by)"}, made), nil, objects, 100*objects)
	}
	answer.addDeaths(profileOf([]string{"freed_objects", "freed_space"},
		joined([]string{"std::vector<int>::~vector", "closes", "main"}, here, 4),
		joined([]string{"closes", "elsewhere"}, here, 3),
		joined([]string{"drops", "main"}, here, 5),
		joined(nil, there, 3)))
	if got, want := *answer.Deaths, (knownDeaths{Known: 12, All: 15}); got != want {
		t.Errorf("%+v instead of %+v", got, want)
	}
	if got := answer.Rows[0]; got.By != "closes" || got.ByBlocks != 7 {
		t.Errorf("%+v", got)
	}
	if got := answer.Rows[1]; got.By != "" || got.ByBlocks != 0 {
		t.Errorf("nobody knows, and yet %+v", got)
	}
}

func TestLifetimesOfSavedProfilesAreRefused(t *testing.T) {
	base, _ := serve(t)
	if status, body := get(t, base+"api/lifetimes", nil); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}
