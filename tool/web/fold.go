package web

import "fmt"

const (
	// manyStacks is how many the page is sent as they are. It makes trees of them at every change, within a tenth of a second.
	manyStacks = 50_000
	// Of more, what is less than this share of every total is summed up where it branches off. A pixel of a wide screen is more.
	smallShare = 1.0 / 20_000
)

// smaller is the function that stands for what has been summed up.
const smaller = "(smaller stacks)"

// fold sums up the smallest of too many stacks; all totals stay. It goes down the tree of stacks level by level: what is small
// with all that it calls goes no further.
func (s *Stacks) fold() {
	if len(s.Stacks) <= manyStacks {
		return
	}
	f := folding{from: s, small: s.smallValues(), places: make([]int32, len(s.Frames))}
	all := make([]int32, len(s.Stacks))
	for i := range all {
		all[i] = int32(i)
	}
	f.branch(nil, all)
	note := fmt.Sprintf("stacks: of %d the smallest are summed up as %s: below 0.005 %% of each total with all that they call", len(s.Stacks), smaller)
	s.Comments = append(s.Comments, note)
	s.Stacks, s.Values, s.Base = f.stacks, f.values, f.base
}

// smallValues is, by type, from where on a value is worth being shown.
func (s *Stacks) smallValues() []float64 {
	small := make([]float64, len(s.Types))
	for _, rows := range [][][]int64{s.Values, s.Base} {
		for _, row := range rows {
			for i, value := range row {
				small[i] += smallShare * float64(max(value, -value))
			}
		}
	}
	return small
}

type folding struct {
	from  *Stacks
	small []float64
	rest  int32 // the frame of what is summed up, + 1; 0: none so far

	stacks       [][]int32
	values, base [][]int64

	// Of divide: a million stacks are divided some hundred thousand times.
	places         []int32 // of each frame its place in frames, + 1
	frames, before []int32
	counts         []int
}

// branch takes the stacks that begin with prefix, by the frame that follows. It changes their order.
func (f *folding) branch(prefix []int32, stacks []int32) {
	depth := len(prefix)
	if len(stacks) == 1 {
		f.add(f.from.Stacks[stacks[0]], stacks)
		return
	}
	ending, groups := f.divide(stacks, depth)
	f.add(prefix, ending)
	var rest []int32
	for _, group := range groups {
		if f.isSmall(group) {
			rest = append(rest, group...)
		} else {
			f.branch(append(prefix[:depth:depth], f.from.Stacks[group[0]][depth]), group)
		}
	}
	if len(rest) > 0 {
		f.add(append(prefix[:depth:depth], f.restFrame()), rest)
	}
}

// divide puts the stacks that end at this depth first, and behind them those with the same next frame together.
func (f *folding) divide(stacks []int32, depth int) (ending []int32, groups [][]int32) {
	next := func(index int32) int32 { return f.from.Stacks[index][depth] }
	frames, counts, ends := f.frames[:0], f.counts[:0], 0
	for _, index := range stacks {
		if len(f.from.Stacks[index]) == depth {
			ends++
			continue
		}
		frame := next(index)
		if f.places[frame] == 0 {
			frames, counts = append(frames, frame), append(counts, 0)
			f.places[frame] = int32(len(frames))
		}
		counts[f.places[frame]-1]++
	}
	groups = make([][]int32, len(counts))
	for i, end := 0, ends; i < len(counts); i++ {
		groups[i] = stacks[end : end : end+counts[i]]
		end += counts[i]
	}
	f.before = append(f.before[:0], stacks...)
	ending = stacks[:0:ends]
	for _, index := range f.before {
		if len(f.from.Stacks[index]) == depth {
			ending = append(ending, index)
		} else {
			group := &groups[f.places[next(index)]-1]
			*group = append(*group, index)
		}
	}
	for _, frame := range frames {
		f.places[frame] = 0
	}
	f.frames, f.counts = frames, counts
	return ending, groups
}

// isSmall says whether a group's values are, of either profile: what grows here and shrinks there is not nothing.
func (f *folding) isSmall(group []int32) bool {
	for i, small := range f.small {
		sum := 0.0
		for _, index := range group {
			sum += float64(max(f.from.Values[index][i], -f.from.Values[index][i]))
			if f.from.Base != nil {
				sum += float64(max(f.from.Base[index][i], -f.from.Base[index][i]))
			}
		}
		if sum >= small && small > 0 {
			return false
		}
	}
	return true
}

// add makes one stack of several.
func (f *folding) add(stack, of []int32) {
	if len(of) == 0 {
		return
	}
	sum := func(rows [][]int64) []int64 {
		total := make([]int64, len(f.small))
		for _, index := range of {
			for i, value := range rows[index] {
				total[i] += value
			}
		}
		return total
	}
	f.stacks = append(f.stacks, append([]int32{}, stack...))
	f.values = append(f.values, sum(f.from.Values))
	if f.from.Base != nil {
		f.base = append(f.base, sum(f.from.Base))
	}
}

func (f *folding) restFrame() int32 {
	if f.rest == 0 {
		f.from.Frames = append(f.from.Frames, Frame{Name: smaller})
		f.rest = int32(len(f.from.Frames))
	}
	return f.rest - 1
}
