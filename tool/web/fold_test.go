package web

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// randomStacks builds a profile with this many stacks, most of them small, from a few hundred functions.
func randomStacks(random *rand.Rand, count int) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}}}
	for i := range 300 {
		function := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("f%d", i)}
		p.Function = append(p.Function, function)
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: function}}})
	}
	for range count {
		sample := &profile.Sample{Value: []int64{1, 1 + int64(random.ExpFloat64()*1000)}}
		if random.Intn(1000) == 0 {
			sample.Value[1] *= 10000
		}
		for range random.Intn(8) {
			sample.Location = append(sample.Location, p.Location[int(random.ExpFloat64()*20)%300])
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

// tree computes the tree of a page: the values of each prefix of a stack.
func tree(s *Stacks, values [][]int64) map[string][]int64 {
	sums := map[string][]int64{}
	add := func(path string, row []int64) {
		if sums[path] == nil {
			sums[path] = make([]int64, len(row))
		}
		for i, value := range row {
			sums[path][i] += value
		}
	}
	for i, stack := range s.Stacks {
		path := ""
		add(path, values[i])
		for _, frame := range stack {
			path += "/" + s.Frames[frame].Name
			add(path, values[i])
		}
	}
	return sums
}

func TestSmallStacksAreSummedUp(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	p, base := randomStacks(random, manyStacks*3), randomStacks(random, manyStacks)
	for _, base := range []*profile.Profile{nil, base} {
		folded, err := NewStacks(p, base)
		if err != nil {
			t.Fatal(err)
		}
		if len(folded.Stacks) > manyStacks/2 {
			t.Errorf("seed %d: %d stacks are left", seed, len(folded.Stacks))
		}
		if !slices.ContainsFunc(folded.Comments, func(c string) bool { return strings.Contains(c, smaller) }) {
			t.Errorf("nothing is said: %q", folded.Comments)
		}
		// The same without folding.
		want := &Stacks{Types: folded.Types, Frames: []Frame{}}
		builder := newStackBuilder(want)
		if err := builder.add(p, false); err != nil {
			t.Fatal(err)
		}
		if base != nil {
			if err := builder.add(base, true); err != nil {
				t.Fatal(err)
			}
			want.Base = rows(builder.base, len(want.Stacks), 2)
		}
		want.Values = rows(builder.values, len(want.Stacks), 2)
		small := builder.smallValues()
		had, has := tree(want, want.Values), tree(folded, folded.Values)
		if !reflect.DeepEqual(had[""], has[""]) {
			t.Errorf("seed %d: totals %v, were %v", seed, has[""], had[""])
		}
		for path, value := range has {
			if !strings.Contains(path, smaller) && !reflect.DeepEqual(value, had[path]) {
				t.Fatalf("seed %d: %s has %v, had %v", seed, path, value, had[path])
			}
		}
		for path, value := range had {
			if large := float64(value[0]) >= small[0] || float64(value[1]) >= small[1]; large && has[path] == nil {
				t.Fatalf("seed %d: %s is gone, with %v of %v", seed, path, value, had[""])
			}
		}
		if base != nil {
			if before, after := tree(want, want.Base), tree(folded, folded.Base); !reflect.DeepEqual(before[""], after[""]) {
				t.Errorf("seed %d: totals before %v, were %v", seed, after[""], before[""])
			}
		}
	}
}

func TestFewStacksAreNotMerged(t *testing.T) {
	p := randomStacks(rand.New(rand.NewSource(testseed.Of(t))), 1000)
	s, err := NewStacks(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range s.Frames {
		if frame.Name == smaller {
			t.Error("they are summed up")
		}
	}
	distinct := map[string]bool{}
	for _, sample := range p.Sample {
		distinct[fmt.Sprint(sample.Location)] = true
	}
	if len(s.Stacks) != len(distinct) {
		t.Errorf("%d stacks, want %d", len(s.Stacks), len(distinct))
	}
}

// NewStacks removes frames, but not from the profile that the history keeps.
func TestProfileIsNotModified(t *testing.T) {
	p := randomStacks(rand.New(rand.NewSource(testseed.Of(t))), 100)
	p.DropFrames = "f[0-9]"
	before := p.String()
	if _, err := NewStacks(p, nil); err != nil {
		t.Fatal(err)
	}
	if after := p.String(); after != before {
		t.Error("it has changed")
	}
}
