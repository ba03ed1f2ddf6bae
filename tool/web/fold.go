package web

import (
	"fmt"
	"slices"
	"sync"
)

const (
	// manyStacks is the number of stacks up to which the page gets all of them. At every change the page builds trees
	// from them, in less than a tenth of a second.
	manyStacks = 50_000
	// If there are more, subtrees below this share of every total are summarized where they branch off. One pixel of a
	// wide screen is a larger share.
	smallShare = 1.0 / 20_000
)

// smaller is the name of the frame that represents the summarized stacks.
const smaller = "(smaller stacks)"

// mergeSmall summarizes the smallest stacks if there are too many. All totals stay the same. It processes the tree of
// stacks level by level: a subtree that is small as a whole is not followed further. Each level is one pass over the
// remaining stacks in memory order, split between two processors. Following one branch after the other takes several
// times as long.
func (b *stackBuilder) mergeSmall() {
	s := b.stacks
	f := smallStackMerger{from: b, small: b.smallValues(), branches: []branch{{only: -1, ending: -1}}, parts: make([]foldingPart, processors())}
	inParts(len(s.Stacks), func(part, from, to int) { f.parts[part].begin(b, from, to) })
	for depth, left := 0, true; left; depth++ {
		f.each(func(part *foldingPart) { part.group(f.branches, depth) })
		f.mergeParts()
		f.separateGroups()
		f.each(func(part *foldingPart) { part.retain(f.groups) })
		left = slices.ContainsFunc(f.parts, func(part foldingPart) bool { return len(part.stacks) > 0 })
	}
	note := fmt.Sprintf("stacks: the smallest of %d are summarized as %s: below 0.005 %% of each total including their callees", len(s.Stacks), smaller)
	s.Comments = append(s.Comments, note)
	f.put(0, nil)
	s.Stacks, b.values, b.base = f.stacks, f.values, f.base
}

// smallValues returns, for each type, the smallest value that is shown separately.
func (b *stackBuilder) smallValues() []float64 {
	types := len(b.stacks.Types)
	small := make([]float64, types)
	for _, all := range [][]int64{b.values, b.base} {
		for row := range min(len(b.stacks.Stacks), len(all)/max(types, 1)) {
			for i, value := range all[row*types : (row+1)*types] {
				small[i] += smallShare * magnitude(value)
			}
		}
	}
	return small
}

func magnitude(value int64) float64 { return float64(max(value, -value)) }

type smallStackMerger struct {
	from     *stackBuilder
	small    []float64
	branches []branch // the first is the root
	parts    []foldingPart
	groups         // of the current level, for all parts together
	rest     int32 // index of the frame for summarized stacks, plus 1; 0: not created yet

	stacks       [][]int32
	values, base []int64
}

// branch is a prefix of stacks that is shown separately.
type branch struct {
	frame    int32   // last frame of the prefix
	only     int32   // the only stack with this prefix, which is shown unchanged; -1: several
	ending   int32   // the stack that equals the prefix; -1: none
	children []int32 // in the order of their first stacks
	rest     []int64 // sums of the small stacks; nil: none
}

// groups are the groups of a level: for each branch, the stacks that continue with the same frame.
type groups struct {
	all   []group
	known wordMap   // branch and frame → index of the group, plus 1
	large []float64 // for each group, the magnitudes of its values and of the base, by type
	sums  []int64   // for each group, its values and those of the base
}

type group struct {
	branch, frame int32
	first, count  int32 // stacks
	becomes       int32 // index of the new branch; -1: its stacks are not followed further
}

func (g *groups) clear() {
	g.all, g.large, g.sums = g.all[:0], g.large[:0], g.sums[:0]
	g.known.clear()
}

// of returns the group of a branch and a frame, and creates it if necessary.
func (g *groups) of(branch, frame, first int32, types int) int32 {
	number := g.known.at(uint64(branch)<<32 | uint64(frame))
	if *number == 0 {
		g.all = append(g.all, group{branch: branch, frame: frame, first: first, becomes: -1})
		*number = int32(len(g.all))
		for range types {
			g.large = append(g.large, 0)
			g.sums = append(g.sums, 0, 0)
		}
	}
	return *number - 1
}

// foldingPart is the share of the stacks that one processor handles, in order.
type foldingPart struct {
	from   *stackBuilder
	stacks []int32
	of     []int32                 // branch of each stack; while a level is processed, its group, or -1 if the stack ends there
	ahead  [][prefetchFrames]int32 // the next frames of each stack
	groups
	joined []int32 // for each group, its index in the groups of all parts
}

// prefetchFrames is the number of frames that are read at once from each stack, because each access to one of many
// stacks waits for memory.
const prefetchFrames = 4

func (p *foldingPart) begin(b *stackBuilder, from, to int) {
	p.from = b
	p.stacks, p.of, p.ahead = make([]int32, to-from), make([]int32, to-from), make([][prefetchFrames]int32, to-from)
	for i := range p.stacks {
		p.stacks[i] = int32(from + i)
	}
}

// group assigns the stacks to groups.
func (p *foldingPart) group(branches []branch, depth int) {
	const ends = -1
	p.groups.clear()
	if depth%prefetchFrames == 0 {
		for i, index := range p.stacks {
			stack := p.from.stacks.Stacks[index]
			if n := copy(p.ahead[i][:], stack[depth:]); n < prefetchFrames {
				p.ahead[i][n] = ends
			}
		}
	}
	types := len(p.from.stacks.Types)
	values, base := p.from.values, p.from.base
	for i, index := range p.stacks {
		frame := p.ahead[i][depth%prefetchFrames]
		if frame == ends {
			branches[p.of[i]].ending = index // at most one stack, because all stacks are different
			p.of[i] = -1
			continue
		}
		group := p.groups.of(p.of[i], frame, index, types)
		p.of[i] = group
		p.groups.all[group].count++
		at := int(group) * types
		add(p.large[at:at+types], p.sums[2*at:2*at+types], values[int(index)*types:])
		if base != nil {
			add(p.large[at:at+types], p.sums[2*at+types:2*at+2*types], base[int(index)*types:])
		}
	}
}

// add adds a row of values.
func add(large []float64, sums, row []int64) {
	row = row[:len(sums)]
	large = large[:len(sums)]
	for i, value := range row {
		large[i] += magnitude(value)
		sums[i] += value
	}
}

// each runs a function on all parts in parallel.
func (f *smallStackMerger) each(do func(*foldingPart)) {
	var all sync.WaitGroup
	for i := range f.parts {
		all.Go(func() { do(&f.parts[i]) })
	}
	all.Wait()
}

// mergeParts merges the groups of all parts, in the order in which a single part would find them.
func (f *smallStackMerger) mergeParts() {
	types := len(f.small)
	f.groups.clear()
	for i := range f.parts {
		p := &f.parts[i]
		p.joined = p.joined[:0]
		for j, g := range p.groups.all {
			to := f.groups.of(g.branch, g.frame, g.first, types)
			p.joined = append(p.joined, to)
			f.groups.all[to].count += g.count
			for k := range types {
				f.large[int(to)*types+k] += p.large[j*types+k]
			}
			for k := range 2 * types {
				f.sums[int(to)*2*types+k] += p.sums[j*2*types+k]
			}
		}
	}
}

// separateGroups turns the large groups into branches, and adds the others to the rest of their branch.
func (f *smallStackMerger) separateGroups() {
	types := len(f.small)
	for i := range f.groups.all {
		g := &f.groups.all[i]
		of := &f.branches[g.branch]
		if f.isSmall(i) {
			if of.rest == nil {
				of.rest = make([]int64, 2*types)
			}
			for j, sum := range f.sums[i*2*types : (i+1)*2*types] {
				of.rest[j] += sum
			}
			continue
		}
		made := branch{frame: g.frame, only: -1, ending: -1}
		number := int32(len(f.branches))
		if g.count == 1 {
			made.only = g.first
		} else {
			g.becomes = number
		}
		of.children = append(of.children, number)
		f.branches = append(f.branches, made)
	}
}

// isSmall reports whether the values of a group are small in both profiles. Growth in one stack and shrinkage in
// another do not cancel out.
func (f *smallStackMerger) isSmall(group int) bool {
	for i, small := range f.small {
		if f.large[group*len(f.small)+i] >= small && small > 0 {
			return false
		}
	}
	return true
}

// retain retains the stacks that are followed further, with their branches.
func (p *foldingPart) retain(joined groups) {
	left := 0
	for i, group := range p.of {
		if group < 0 {
			continue
		}
		if branch := joined.all[p.joined[group]].becomes; branch >= 0 {
			p.stacks[left], p.of[left], p.ahead[left] = p.stacks[i], branch, p.ahead[i]
			left++
		}
	}
	p.stacks, p.of, p.ahead = p.stacks[:left], p.of[:left], p.ahead[:left]
}

// put writes a branch and its subtree. path is the prefix of the branch.
func (f *smallStackMerger) put(number int32, path []int32) {
	types := len(f.small)
	b := f.branches[number]
	stack := func(index int32, frames []int32) {
		begin, end := int(index)*types, (int(index)+1)*types
		f.add(frames, f.from.values[begin:end], f.from.base[min(begin, len(f.from.base)):min(end, len(f.from.base))])
	}
	if b.only >= 0 {
		stack(b.only, f.from.stacks.Stacks[b.only])
		return
	}
	if b.ending >= 0 {
		stack(b.ending, path)
	}
	for _, child := range b.children {
		f.put(child, append(path[:len(path):len(path)], f.branches[child].frame))
	}
	if b.rest != nil {
		f.add(append(path[:len(path):len(path)], f.restFrame()), b.rest[:types], b.rest[types:])
	}
}

// add adds a stack with its values and, if there is a base, its base values.
func (f *smallStackMerger) add(stack []int32, values, base []int64) {
	f.stacks = append(f.stacks, slices.Clone(stack))
	f.values = append(f.values, values...)
	if f.from.base != nil {
		f.base = append(f.base, base...)
	}
}

func (f *smallStackMerger) restFrame() int32 {
	if f.rest == 0 {
		f.from.stacks.Frames = append(f.from.stacks.Frames, Frame{Name: smaller})
		f.rest = int32(len(f.from.stacks.Frames))
	}
	return f.rest - 1
}
