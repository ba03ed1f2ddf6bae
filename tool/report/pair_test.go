package report

import (
	"math"
	"math/rand"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// heapOf builds a heap profile of one process: one row per stack, with counts of recorded blocks.
func heapOf(start uint64, interval, size int64, allocated, live []int) *profile.Profile {
	m := &profile.Mapping{ID: 1, Start: start, Limit: start + 1<<20, BuildID: "1234"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
			{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: interval, Mapping: []*profile.Mapping{m},
	}
	q := -math.Expm1(-float64(size) / float64(interval))
	for i := range allocated {
		f := &profile.Function{ID: uint64(i + 1), Name: "f" + string(rune('a'+i))}
		loc := &profile.Location{ID: uint64(i + 1), Mapping: m, Address: start + uint64(i), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, loc)
		a, n := math.Round(float64(allocated[i])/q), math.Round(float64(live[i])/q)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{loc}, Value: []int64{int64(a), int64(a) * size, int64(n), int64(n) * size},
			NumLabel: map[string][]int64{"bytes": {size}}, NumUnit: map[string][]string{"bytes": {"bytes"}}})
	}
	return p
}

const inuseSpace = 3

// A large heap of which little changes: the error of the change is that of the blocks that differ.
func TestErrorOfAChangeIsOfTheBlocksThatDiffer(t *testing.T) {
	random := rand.New(rand.NewSource(testseed.Of(t)))
	const interval, size, rounds, stacks = 512 << 10, 1000, 300, 3
	q := -math.Expm1(-float64(size) / interval)
	squares, count := 0.0, 0
	for range rounds {
		var alloc0, live0, alloc1, live1 []int
		truth := 0.0
		for range stacks {
			old, gone, born := 2_000_000, random.Intn(60_000), 20_000+random.Intn(60_000)
			n0, lost, more := sampledOf(random, float64(old-gone)*q), sampledOf(random, float64(gone)*q), sampledOf(random, float64(born)*q)
			alloc0, live0 = append(alloc0, n0+lost+500), append(live0, n0+lost)
			alloc1, live1 = append(alloc1, n0+lost+500+more), append(live1, n0+more)
			truth += float64(born-gone) * size
		}
		before, after := heapOf(1<<20, interval, size, alloc0, live0), heapOf(1<<20, interval, size, alloc1, live1)
		d, err := NewDiff(before.Copy(), inuseSpace, after.Copy(), inuseSpace)
		if err != nil {
			t.Fatal(err)
		}
		off := (float64(d.Total.Change) - truth) / float64(d.Total.Error)
		squares += off * off
		count++
		// The other way to the same figures.
		difference, err := Subtract(after.Copy(), before.Copy())
		if err != nil {
			t.Fatal(err)
		}
		top, err := NewTop(difference, inuseSpace)
		if err != nil {
			t.Fatal(err)
		}
		if top.Total != d.Total.Change || math.Abs(float64(top.Error-d.Total.Error)) > 0.01*float64(d.Total.Error) {
			t.Fatalf("diff %d ± %.0f, top of the difference %d ± %.0f", d.Total.Change, d.Total.Error, top.Total, top.Error)
		}
		for _, row := range top.Rows {
			for _, delta := range d.Functions {
				if delta.Name == row.Name && (delta.Change != row.Flat || math.Abs(float64(delta.Error-row.FlatError)) > 0.01*float64(delta.Error)) {
					t.Fatalf("%+v, but %+v", delta, row)
				}
			}
		}
	}
	if mean := squares / float64(count); mean < 0.7 || mean > 1.4 {
		t.Errorf("the mean square of the deviations is %.2f of the stated variance; 1 expected", mean)
	}
}

func TestAProfileDiffersFromItselfByNothing(t *testing.T) {
	p := heapOf(1<<20, 512<<10, 1000, []int{100, 200}, []int{50, 200})
	d, err := NewDiff(p.Copy(), inuseSpace, p.Copy(), inuseSpace)
	if err != nil || d.Total.Change != 0 || d.Total.Error != 0 {
		t.Errorf("%+v, %v", d.Total, err)
	}
}

// Profiles of two processes are independent: all blocks of both add to the error.
func TestProfilesOfTwoProcessesAreNotPaired(t *testing.T) {
	counts, live := []int{100, 200}, []int{50, 200}
	p := heapOf(1<<20, 512<<10, 1000, counts, live)
	for name, other := range map[string]*profile.Profile{
		"at another address":        heapOf(1<<30, 512<<10, 1000, counts, live),
		"with fewer allocations":    heapOf(1<<20, 512<<10, 1000, []int{99, 200}, live),
		"a difference":              {Comments: []string{"difference: x"}, SampleType: p.SampleType, Period: p.Period, Mapping: p.Mapping, Sample: p.Sample},
		"without allocation counts": {SampleType: p.SampleType[2:], Period: p.Period, Mapping: p.Mapping},
	} {
		if Paired(p, other) {
			t.Errorf("%s: paired", name)
		}
	}
	d, err := NewDiff(p.Copy(), inuseSpace, heapOf(1<<30, 512<<10, 1000, counts, live), inuseSpace)
	if want := math.Sqrt(2 * 250 * 512 * 512 * 1024 * 1024); err != nil || math.Abs(float64(d.Total.Error)-want) > 0.05*want {
		t.Errorf("± %.0f instead of %.0f, %v", d.Total.Error, want, err)
	}
}

// What `--kind since` and the difference of two heap profiles say of the same time.
func TestSinceHasTheErrorOfADifference(t *testing.T) {
	before, after := heapOf(1<<20, 512<<10, 1000, []int{100, 200}, []int{100, 200}), heapOf(1<<20, 512<<10, 1000, []int{180, 200}, []int{150, 190})
	since := after.Copy()
	since.Comments = []string{"since: the baseline was set 3 ms before"}
	for i, sample := range since.Sample {
		for v := range sample.Value {
			sample.Value[v] -= before.Sample[i].Value[v]
		}
	}
	d, err := NewDiff(before, inuseSpace, after, inuseSpace)
	if err != nil {
		t.Fatal(err)
	}
	top, err := NewTop(since, inuseSpace)
	if err != nil {
		t.Fatal(err)
	}
	if top.Total != d.Total.Change || math.Abs(float64(top.Error-d.Total.Error)) > 1e-3*float64(d.Total.Error) {
		t.Errorf("since %d ± %.0f, diff %d ± %.0f", top.Total, top.Error, d.Total.Change, d.Total.Error)
	}
}

// sampledOf draws a Poisson variable: the number of samples of many small blocks.
func sampledOf(random *rand.Rand, mean float64) (n int) {
	for at := random.ExpFloat64(); at < mean; at += random.ExpFloat64() {
		n++
	}
	return n
}
