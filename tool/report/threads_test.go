package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// threaded makes a profile of rows of threads; a row without a name has no labels.
func threaded(rows ...threadedRow) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1}
	for _, row := range rows {
		function := &profile.Function{ID: uint64(len(p.Function) + 1), Name: row.function}
		location := &profile.Location{ID: function.ID, Line: []profile.Line{{Function: function}}}
		p.Function, p.Location = append(p.Function, function), append(p.Location, location)
		sample := &profile.Sample{Location: []*profile.Location{location}, Value: []int64{row.value / 8, row.value}}
		if row.name != "" {
			sample.Label = map[string][]string{"thread": {row.name}}
		}
		if row.tid != 0 {
			sample.NumLabel = map[string][]int64{"tid": {row.tid}}
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

type threadedRow struct {
	name     string
	tid      int64
	function string
	value    int64
}

func TestThreadsAddUp(t *testing.T) {
	p := threaded(threadedRow{"a", 7, "f", 16}, threadedRow{"b", 8, "f", 8}, threadedRow{"a", 7, "g", 80}, threadedRow{"a", 9, "g", 64},
		threadedRow{"(other threads)", 0, "f", 24}, threadedRow{"evil\x1b[2J", 10, "g", 800})
	top, err := NewTop(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := Threads(p, 1)
	type short struct {
		name              string
		tid, value, count int64
		mostly            string
	}
	var got []short
	for _, row := range rows {
		got = append(got, short{row.Name, row.TID, row.Value, row.Count, row.Functions[0].Name})
	}
	want := []short{{"evil\x1b[2J", 10, 800, 100, "g"}, {"a", 7, 96, 12, "g"}, {"a", 9, 64, 8, "g"}, {"(other threads)", 0, 24, 3, "f"}, {"b", 8, 8, 1, "f"}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	text := top.ThreadText(rows, 2)
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "evil?[2J") || !strings.Contains(text, "(3 more threads") || !strings.Contains(text, "g 83%") {
		t.Error(text)
	}
	if names := ThreadNames(p); !slices.Equal(names, []string{"(other threads)", "a", "b", "evil\x1b[2J"}) {
		t.Errorf("%q", names)
	}
}

func TestThreadsAreChosenByNameOrID(t *testing.T) {
	for pattern, want := range map[string]int64{"^a$": 3, "a": 3 + 4, "7": 1, "^7$": 0, "2": 8, "x": 0, "9": 2} {
		p := threaded(threadedRow{"a", 7, "f", 1}, threadedRow{"a", 9, "f", 2}, threadedRow{"bar", 79, "f", 4}, threadedRow{"w2", 22, "f", 8}, threadedRow{"", 0, "f", 16})
		any := FilterThreads(p, regexp.MustCompile(pattern))
		if got := Total(p, 1); got != want || any != (want != 0) {
			t.Errorf("%s: %d (%t), want %d", pattern, got, any, want)
		}
	}
}

func TestHasThreads(t *testing.T) {
	for want, p := range map[bool]*profile.Profile{
		true: threaded(threadedRow{"", 0, "f", 1}, threadedRow{"a", 7, "f", 1}), false: threaded(threadedRow{"", 0, "f", 1}),
	} {
		if HasThreads(p) != want {
			t.Errorf("%v: %t", p, !want)
		}
	}
	if !HasThreads(threaded()) {
		t.Error("an empty profile")
	}
}
