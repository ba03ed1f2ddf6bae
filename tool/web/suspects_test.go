package web

import (
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// heapOf makes a profile of functions, each called by main, that have so many bytes in use.
func heapOf(at time.Time, bytes map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1, TimeNanos: at.UnixNano(), DefaultSampleType: "inuse_space",
	}
	location := func(name string) *profile.Location {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: name + ".cc"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		return l
	}
	main := location("main")
	for name, value := range bytes {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{location(name), main}, Value: []int64{value / 100, value}})
	}
	return p
}

// Two leaks among noise are named first, at their rate; what swings is not called sure.
func TestLeaksComeFirst(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	noise := func(about float64) int64 { return int64(about * (1 + random.NormFloat64()/20)) }
	h := &History{}
	for i := range 30 {
		seconds := float64(5 * i)
		keep(h, heapOf(time.Unix(1e9+int64(seconds), 0), map[string]int64{
			"leak_fast": 1000 + int64(1e6*seconds), "leak_slow": noise(1e6) + int64(1e5*seconds), "steady": noise(5e7), "swings": int64(5e7 * (1 + math.Sin(seconds))),
		}), false)
	}
	all, err := Suspects(h.Moments(), 10)
	if err != nil || len(all) < 2 {
		t.Fatalf("%v, %v", all, err)
	}
	if all[0].Stack[0] != "leak_fast" || math.Abs(all[0].PerS-1e6) > 1e4 || all[0].Sure < 0.999 || len(all[0].Stack) != 2 {
		t.Errorf("first %+v", all[0])
	}
	if slow := all[1]; slow.Stack[0] != "leak_slow" || math.Abs(slow.PerS-1e5) > 2e4 || slow.Sure < 0.999 || len(slow.Values) != 30 {
		t.Errorf("second %+v", slow)
	}
	if times := all[1].Times; len(times) != 30 || times[0] != 1e12 || times[29] != 1e12+29*5000 {
		t.Errorf("times %v", times)
	}
	// So many swings end a little above where they began: they are listed, and not called sure.
	swings := slices.IndexFunc(all, func(one Suspect) bool { return one.Stack[0] == "swings" })
	if swings < 0 || all[swings].Sure > 0.9 {
		t.Errorf("swings: %+v", all)
	}
	for _, one := range all {
		if one.Stack[0] == "main" {
			t.Error("main has allocated nothing itself")
		}
	}
}

func TestTooFewMomentsSayNothing(t *testing.T) {
	h := &History{}
	for i := range leastMoments - 1 {
		keep(h, heapOf(time.Unix(1e9+int64(i), 0), map[string]int64{"leak": int64(i) << 20}), false)
	}
	if all, err := Suspects(h.Moments(), 10); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// A rate needs times.
func TestFilesWithoutTimesSayNothing(t *testing.T) {
	for _, timeless := range []int{-1, 3} {
		h := &History{}
		for i := range 2 * leastMoments {
			p := heapOf(time.Unix(1e9+int64(i), 0), map[string]int64{"leak": int64(1+i) << 20})
			if i == timeless {
				p.TimeNanos = 0
			}
			h.AddFile("file", p)
		}
		if all, err := Suspects(h.Moments(), 10); err != nil || (len(all) == 1) != (timeless < 0) {
			t.Errorf("file %d without a time: %v, %v", timeless, all, err)
		}
	}
}

// What is known of stacks goes with the profiles that they were in: a program may have ever new ones.
func TestStacksOfThePastAreForgotten(t *testing.T) {
	h := &History{}
	inHeap := func() int64 {
		var m runtime.MemStats
		for range 3 { // what was reachable from what was freed
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inHeap()
	const perMoment, nameBytes = 50, 2000
	padding := strings.Repeat("x", nameBytes)
	for i := range 10 * mostMoments {
		bytes := map[string]int64{}
		for j := range perMoment {
			bytes[fmt.Sprint(i, "-", j, padding)] = 100
		}
		m := keep(h, heapOf(time.Unix(1e9+int64(5*i), 0), bytes), false)
		if _, err := m.held(); err != nil { // as Suspects does
			t.Fatal(err)
		}
	}
	// A name is in a profile and, as a part of a stack, once more; twice for room.
	if grown, most := inHeap()-before, int64(2*2*mostMoments*perMoment*nameBytes); grown > most {
		t.Errorf("%d bytes in use for %d moments, at most %d expected", grown, len(h.Moments()), most)
	}
	runtime.KeepAlive(h)
}

// The test's figures against those of its inventors' normal approximation: five values in order.
func TestCertainty(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   float64
	}{
		{[]int64{1, 2, 3, 4, 5}, 0.9864}, // S = 10, variance 50/3: z = 2.205
		{[]int64{5, 4, 3, 2, 1}, 0},
		{[]int64{7, 7, 7, 7, 7}, 0},
		{[]int64{1, 1, 2, 2, 3}, 0.9680}, // S = 8, variance 14.67: z = 1.828 … by ties
	} {
		if got := certainty(c.values); math.Abs(got-c.want) > 0.003 {
			t.Errorf("%v: %.4f instead of %.4f", c.values, got, c.want)
		}
	}
}
