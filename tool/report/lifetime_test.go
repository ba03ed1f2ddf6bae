package report

import (
	"math"
	"testing"

	"github.com/google/pprof/profile"
)

// Rows of one stack that differ only by thread become one row if no thread is selected.
func TestLifetimesOfThreadsAddUp(t *testing.T) {
	function := &profile.Function{ID: 1, Name: "make"}
	location := &profile.Location{ID: 1, Line: []profile.Line{{Function: function}}}
	p := &profile.Profile{Function: []*profile.Function{function}, Location: []*profile.Location{location}}
	for _, name := range []string{"alive_objects", "alive_space", "freed_objects", "freed_space"} {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "count"})
	}
	add := func(thread string, tid int64, age, by string, values []int64, least, mean, deviation, most int64) {
		sample := &profile.Sample{Location: p.Location, Value: values, Label: map[string][]string{"thread": {thread}, "lifetime": {age}}, NumLabel: map[string][]int64{}}
		if tid != 0 {
			sample.NumLabel["tid"] = []int64{tid}
		}
		if by != "" {
			sample.Label["freed_by"] = []string{by}
			for name, value := range map[string]int64{"least": least, "mean": mean, "deviation": deviation, "most": most} {
				sample.NumLabel[name] = []int64{value}
			}
		}
		p.Sample = append(p.Sample, sample)
	}
	add("a", 7, "alive", "", []int64{4, 40, 0, 0}, 0, 0, 0, 0)
	add("b", 8, "alive", "", []int64{5, 50, 0, 0}, 0, 0, 0, 0)
	add("a", 7, "under 1us", "same thread", []int64{0, 0, 10, 100}, 100, 200, 0, 300)
	add("b", 8, "under 1us", "same thread", []int64{0, 0, 30, 300}, 50, 600, 0, 900)
	add("(other threads)", 0, "under 1us", "another thread", []int64{0, 0, 10, 100}, 70, 500, 0, 950)
	p, err := profile.Merge([]*profile.Profile{p}) // as after writing and reading: rows are not merged
	if err != nil || len(p.Sample) != 5 {
		t.Fatalf("%d rows, %v", len(p.Sample), err)
	}
	for name, rows := range map[string][]LifetimeRow{"function": Lifetimes(p), "stack": LifetimesByStack(p)} {
		if len(rows) != 1 {
			t.Fatalf("by %s: %+v", name, rows)
		}
		row := rows[0]
		if row.Alive != 9 || row.Freed != 50 || row.FreedB != 500 || row.FreedByOther != 10 || row.Ages["under 1us"] != 50 || row.AgeBytes["under 1us"] != 500 ||
			row.Min != 50 || row.Max != 950 || math.Abs(row.Mean-500) > 1e-6 || math.Abs(row.Deviation-math.Sqrt(24000)) > 1e-6 {
			t.Errorf("by %s: %+v", name, row)
		}
	}
}
