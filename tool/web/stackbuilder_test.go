package web

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
	"seemalloc/tool/testseed"
)

// inlinedStacks is randomStacks with inlined functions. One location has only the inlined function.
func inlinedStacks(random *rand.Rand, count int) *profile.Profile {
	p := randomStacks(random, count)
	for i := 20; i < 60; i++ {
		location := p.Location[i]
		for range 1 + random.Intn(3) {
			location.Line = append(location.Line, profile.Line{Function: p.Function[random.Intn(60)], Line: int64(i)})
		}
	}
	p.Location[0].ID = 1 << 40
	return p
}

// The allocator's own frames are removed in the same way as by pprof.
func TestStacksEndWherePprofEndsThem(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	for _, drop := range []string{"", "f[12]", "f[0-9]", "f.*", "f2.*|f31"} {
		p := inlinedStacks(random, 2000)
		p.DropFrames, p.KeepFrames = drop, "f2[5-9]"
		s, err := NewStacks(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for i, stack := range s.Stacks {
			var names []string
			for _, frame := range stack {
				names = append([]string{s.Frames[frame].Name}, names...)
			}
			got[strings.Join(names, " ")] = s.Values[i][1]
		}
		want := map[string]int64{}
		trimmed := p.Copy()
		if err := trimmed.RemoveUninteresting(); err != nil {
			t.Fatal(err)
		}
		for _, sample := range trimmed.Sample {
			var names []string
			for _, frame := range report.Frames(sample) {
				names = append(names, frame.Name)
			}
			want[strings.Join(names, " ")] += sample.Value[1]
		}
		// In stacks, lines of one function are distinct, even though their names are equal.
		if drop == "" && len(got) < 1000 || len(got) != len(want) {
			t.Errorf("seed %d, %q: %d stacks, want %d", seed, drop, len(got), len(want))
		}
		sum, sumWant := int64(0), int64(0)
		for name, value := range want {
			if _, found := got[name]; !found {
				t.Fatalf("seed %d, %q: no %s", seed, drop, name)
			}
			sumWant += value
		}
		for i := range s.Values {
			sum += s.Values[i][1]
		}
		if sum != sumWant {
			t.Errorf("seed %d, %q: %d in all, want %d", seed, drop, sum, sumWant)
		}
	}
}

// For any number of processors the stacks have the same order and the same values, even if small ones are summarized.
func TestStacksAreTheSameOnAnyNumberOfProcessors(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	defer func(usual func() int) { processors = usual }(processors)
	for _, count := range []int{0, 3, 5000, 3 * manyStacks} {
		p, base := inlinedStacks(random, count), randomStacks(random, count/2)
		p.Period, base.Period = 1000, 1000 // otherwise the error is NaN, which is not equal to itself
		processors = func() int { return 1 }
		want, err := NewStacks(p, base)
		if err != nil {
			t.Fatal(err)
		}
		for _, many := range []int{2, 5} {
			processors = func() int { return many }
			got, err := NewStacks(p, base)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: of %d samples, %d processors make %d stacks, one makes %d, or others", seed, count, many, len(got.Stacks), len(want.Stacks))
			}
		}
	}
}

// Frames that occur in no stack are not sent.
func TestFramesAreThoseOfStacks(t *testing.T) {
	p := randomStacks(rand.New(rand.NewSource(testseed.Of(t))), 50)
	s, err := NewStacks(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := map[int32]bool{}
	for _, stack := range s.Stacks {
		for _, frame := range stack {
			if int(frame) > len(used) {
				t.Fatalf("frame %d comes before %d", frame, len(used))
			}
			used[frame] = true
		}
	}
	if len(s.Frames) != len(used) || len(used) < 10 {
		t.Errorf("%d frames, %d of them in stacks", len(s.Frames), len(used))
	}
}

func TestWordMap(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	var m wordMap
	for range 3 {
		model := map[uint64]int32{}
		for i := range int32(20_000) {
			word := uint64(random.Intn(10_000)) << (8 * random.Intn(6)) // including 0
			number := m.at(word)
			if *number != model[word] {
				t.Fatalf("seed %d: %d has %d, want %d", seed, word, *number, model[word])
			}
			*number, model[word] = i+1, i+1
		}
		m.clear()
	}
}
