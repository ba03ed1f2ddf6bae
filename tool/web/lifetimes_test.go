package web

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// profileOf builds a profile of stacks (innermost first) with their values and labels.
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
	got := newLifetimes(lived, stackFilter{})
	if got.Alive != 7 || got.Freed[0] != 13 || got.Freed[7] != 2 || got.Bytes[0] != 1030 || got.Bytes[7] != 200 {
		t.Errorf("%+v", got)
	}
	want := lifetimeRow{Stack: here, Alive: 7, Freed: 12, FreedB: 1200, Elsewhere: 2, Least: 5, Mean: 500, Most: 900,
		Ages: []int64{10, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, ShortBlocks: 10}
	if len(got.Rows) != 2 || !reflect.DeepEqual(got.Rows[0], want) {
		t.Errorf("got  %+v\nwant %+v", got.Rows, want)
	}
	if report.AgeClasses[got.Short-1] != "1ms to 10ms" || len(got.Classes) != len(got.Freed) {
		t.Errorf("%d of %v are short", got.Short, got.Classes)
	}
}

// The freeing function is the program's own, even if a container calls free. The one with the most blocks is shown, and
// none if the freeing stacks were not recorded.
func TestFreeingStacks(t *testing.T) {
	here, there := []string{"make", "here", "main"}, []string{"make", "there", "main"}
	answer := newLifetimes(profileOf([]string{"alive_objects", "alive_space", "freed_objects", "freed_space"},
		row(here, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 12, 1200),
		row(there, map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}, 0, 0, 3, 30)), stackFilter{})
	joined := func(freed, made []string, objects int64) func(*profile.Profile) *profile.Sample {
		return row(slices.Concat(freed, []string{"(freed by)"}, made), nil, objects, 100*objects)
	}
	answer.addDeaths(profileOf([]string{"freed_objects", "freed_space"},
		joined([]string{"std::vector<int>::~vector", "closes", "main"}, here, 4),
		joined([]string{"closes", "elsewhere"}, here, 3),
		joined([]string{"drops", "main"}, here, 5),
		joined(nil, there, 3)), stackFilter{})
	if got, want := *answer.Deaths, (knownDeaths{Known: 12, All: 15}); got != want {
		t.Errorf("%+v instead of %+v", got, want)
	}
	if got := answer.Rows[0]; got.By != "closes" || got.ByBlocks != 7 {
		t.Errorf("%+v", got)
	}
	if got := answer.Rows[1]; got.By != "" || got.ByBlocks != 0 {
		t.Errorf("the ages are unknown, but the answer is %+v", got)
	}
}

func filterOf(t *testing.T, query string) stackFilter {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := newStackFilter(q)
	if err != nil {
		t.Fatal(err)
	}
	return filter
}

// A selected function restricts the histogram, the stacks and the freeing functions by the allocating stack and not by
// the freeing stack.
func TestLifetimesOfChosenStacks(t *testing.T) {
	here, there := []string{"make", "here", "main"}, []string{"make", "there", "main"}
	types := []string{"alive_objects", "alive_space", "freed_objects", "freed_space"}
	young := map[string]string{"lifetime": "under 1us", "freed_by": "same thread"}
	for query, want := range map[string]string{"focus=HERE%24&ignore=there": "here", "ignore=%5Ehere": "there", "focus=t.ere": "there"} {
		filter := filterOf(t, query)
		answer := newLifetimes(profileOf(types, row(here, young, 0, 0, 12, 1200), row(there, young, 0, 0, 3, 300)), filter)
		answer.addDeaths(profileOf([]string{"freed_objects", "freed_space"},
			row(slices.Concat([]string{"there"}, []string{"(freed by)"}, here), nil, 12, 1200),
			row(slices.Concat([]string{"here"}, []string{"(freed by)"}, there), nil, 3, 300)), filter)
		freed := map[string]int64{"here": 12, "there": 3}[want]
		if len(answer.Rows) != 1 || answer.Rows[0].Stack[1] != want || answer.Freed[0] != freed || answer.Deaths.All != freed {
			t.Errorf("%s: %+v, deaths %+v", query, answer, answer.Deaths)
		}
	}
}

// A module selects by the allocating stack. That includes rows of deaths: their innermost functions belong to the
// freeing stack.
func TestLifetimesOfAModule(t *testing.T) {
	in := func(file string, sample *profile.Sample, from int) *profile.Sample {
		for _, location := range sample.Location[from:] {
			location.Mapping = &profile.Mapping{File: file}
		}
		return sample
	}
	p := profileOf([]string{"freed_objects"})
	p.Sample = append(p.Sample,
		in("/lib/liba.so", row([]string{"make", "main"}, nil, 7)(p), 0),
		in("/lib/liba.so", in("/lib/libb.so", row([]string{"drop", "(freed by)", "make", "main"}, nil, 5)(p), 0), 2),
		in("/lib/libb.so", in("/lib/liba.so", row([]string{"drop", "(freed by)", "build", "main"}, nil, 3)(p), 0), 2),
		row([]string{"nowhere"}, nil, 1)(p))
	for module, want := range map[string]int64{"": 16, "liba.so": 12, "libb.so": 3, "libc.so": 0} {
		sum := int64(0)
		for _, sample := range filterOf(t, "module="+module).ofModule(p).Sample {
			sum += sample.Value[0]
		}
		if sum != want {
			t.Errorf("%q: %d instead of %d", module, sum, want)
		}
	}
	if got := modulesOf(p); !slices.Equal(got, []string{"liba.so", "libb.so"}) || len(p.Sample) != 4 {
		t.Errorf("%v", got)
	}
}

// Threads select by allocating thread. The freeing functions are not shown then, because rows of deaths have no
// threads.
func TestLifetimesOfChosenThreads(t *testing.T) {
	here, there := []string{"make", "here", "main"}, []string{"make", "there", "main"}
	types := []string{"alive_objects", "alive_space", "freed_objects", "freed_space"}
	of := func(thread string) map[string]string {
		return map[string]string{"lifetime": "under 1us", "freed_by": "same thread", "thread": thread}
	}
	alive := map[string]string{"lifetime": "alive", "thread": "writer 1"}
	kept := &History{}
	if err := kept.StoreIn(folder(t, t.TempDir()), 1, "one", 1, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	kept.StoreProfile("lifetime", profileOf(types, row(here, of("reader"), 0, 0, 12, 1200), row(here, of("writer 1"), 0, 0, 3, 300),
		row(here, alive, 7, 700, 0, 0), row(there, of("(other threads)"), 0, 0, 5, 500)))
	kept.StoreProfile("deaths", profileOf([]string{"freed_objects"}, row([]string{"drop", "(freed by)", "make", "here", "main"}, nil, 15)))
	server, err := NewServer(Options{}, kept, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]struct{ rows, freed, alive int64 }{
		"": {2, 20, 7}, "thread=reader": {1, 12, 0}, "thread=^writer": {1, 3, 7}, "thread=reader|other": {2, 17, 0},
		"thread=nobody": {0, 0, 0}, "thread=r&focus=there": {1, 5, 0},
	} {
		q, _ := url.ParseQuery(query)
		got, err := server.lifetimes(q)
		if err != nil {
			t.Fatal(err)
		}
		answer := got.(*lifetimes)
		if int64(len(answer.Rows)) != want.rows || answer.Freed[0] != want.freed || answer.Alive != want.alive {
			t.Errorf("%s: %+v", query, answer)
		}
		if !slices.Equal(answer.Threads, []string{"(other threads)", "reader", "writer 1"}) || (answer.Deaths == nil) != (query != "") {
			t.Errorf("%s: threads %q, deaths %+v", query, answer.Threads, answer.Deaths)
		}
	}
	// From an older library: its rows have no threads.
	kept.StoreProfile("lifetime", profileOf(types, row(here, nil, 0, 0, 12, 1200)))
	if server, err = NewServer(Options{}, kept, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := server.lifetimes(url.Values{}); err != nil || got.(*lifetimes).Threads != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := server.lifetimes(url.Values{"thread": {"reader"}}); err == nil || !strings.Contains(err.Error(), "has no threads") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLifetimesOfSavedProfilesAreRefused(t *testing.T) {
	base, _ := serve(t)
	if status, body := get(t, base+"api/lifetimes", nil); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}
