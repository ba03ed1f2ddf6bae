package web

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// stackBuilder finds the distinct stacks of a profile and of its base. A million samples have twenty million locations,
// so the work per location runs on all processors, and memory is allocated in large chunks.
type stackBuilder struct {
	stacks     *Stacks
	frames     map[Frame]int32
	seed       uint64  // random, so that a crafted profile cannot make all stacks collide
	known      wordMap // hash → index of the last stack with it, plus 1
	earlier    []int32 // for each stack, the previous one with the same hash; -1: none
	wrappers   owner.Wrappers
	ownsMemory bool
	// For each stack one value per type, consecutively.
	values, base []int64
}

func newStackBuilder(s *Stacks) *stackBuilder {
	return &stackBuilder{stacks: s, frames: map[Frame]int32{}, seed: rand.Uint64()}
}

// add adds a profile, which it does not modify, or the base.
func (b *stackBuilder) add(p *profile.Profile, isBase bool) error {
	t, err := trim(p)
	if err != nil {
		return err
	}
	places := make([]int, len(p.SampleType)) // in a row
	for i, t := range p.SampleType {
		places[i] = slices.IndexFunc(b.stacks.Types, func(known SampleType) bool { return known.Name == t.Type })
	}
	stacks, hashes := b.walk(p, t, b.newLocationFrames(p, t))

	b.expect(len(p.Sample))
	into := b.values
	if isBase {
		b.base = make([]int64, len(b.values))
		into = b.base
	}
	width := len(b.stacks.Types)
	for i, sample := range p.Sample {
		row := into[b.index(stacks[i], hashes[i])*width:]
		for j, value := range sample.Value {
			if places[j] >= 0 {
				row[places[j]] += value
			}
		}
	}
	return nil
}

// expect reserves space for this many additional stacks.
func (b *stackBuilder) expect(more int) {
	b.known.expect(len(b.stacks.Stacks) + more)
	b.stacks.Stacks, b.earlier = slices.Grow(b.stacks.Stacks, more), slices.Grow(b.earlier, more)
	size := (len(b.stacks.Stacks) + more) * len(b.stacks.Types)
	previous := len(b.stacks.Stacks) * len(b.stacks.Types)
	b.values = append(make([]int64, 0, size), b.values[:previous]...)[:size]
}

// index returns the index of a stack, and adds it if necessary.
func (b *stackBuilder) index(stack []int32, hash uint64) int {
	last := b.known.at(hash)
	for at := *last - 1; at >= 0; at = b.earlier[at] {
		if slices.Equal(b.stacks.Stacks[at], stack) {
			return int(at)
		}
	}
	b.earlier = append(b.earlier, *last-1)
	b.stacks.Stacks = append(b.stacks.Stacks, stack)
	*last = int32(len(b.stacks.Stacks))
	return len(b.stacks.Stacks) - 1
}

// finish stores the result in the Stacks.
func (b *stackBuilder) finish(compares bool) {
	s := b.stacks
	if len(s.Stacks) > manyStacks {
		b.mergeSmall()
	}
	b.number()
	s.Values = rows(b.values, len(s.Stacks), len(s.Types))
	if compares {
		s.Base = rows(b.base, len(s.Stacks), len(s.Types))
	}
}

// number keeps only the frames that occur in stacks, in order of occurrence, and sets their properties. It copies the
// stacks, because few of a million may be left.
func (b *stackBuilder) number() {
	s := b.stacks
	frames, numbers := []Frame{}, make([]int32, len(s.Frames)) // index + 1
	length := 0
	for _, stack := range s.Stacks {
		length += len(stack)
	}
	space := make([]int32, 0, length)
	for i, stack := range s.Stacks {
		begin := len(space)
		for _, frame := range stack {
			if numbers[frame] == 0 {
				frames = append(frames, s.Frames[frame])
				numbers[frame] = int32(len(frames))
			}
			space = append(space, numbers[frame]-1)
		}
		s.Stacks[i] = space[begin:len(space):len(space)]
	}
	s.Frames = frames
	b.findOwners()
}

// findOwners finds the function that owns the memory of each stack.
func (b *stackBuilder) findOwners() {
	s := b.stacks
	classes := make([]owner.Class, len(s.Frames))
	inParts(len(s.Frames), func(_, from, to int) {
		for i := from; i < to; i++ {
			classes[i] = owner.Classify(owner.Frame{Name: s.Frames[i].Name, Module: s.Frames[i].path, File: s.Frames[i].File})
			classes[i].SetWrapper(b.wrappers, s.Frames[i].Name)
		}
	})
	languages := owner.Languages(slices.Values(classes))
	for i, class := range classes {
		s.Frames[i].Folded = class.IsFolded(languages)
		s.Frames[i].Plumbing = class.IsPassedOver(languages)
	}
	if !b.ownsMemory {
		return
	}
	s.Owned = make([][2]int32, len(s.Stacks))
	inParts(len(s.Stacks), func(_, from, to int) {
		var stack []owner.Class
		for i := from; i < to; i++ {
			stack = stack[:0]
			for _, frame := range slices.Backward(s.Stacks[i]) {
				stack = append(stack, classes[frame])
			}
			part := owner.VisiblePart(stack, languages)
			s.Owned[i] = [2]int32{int32(len(stack) - part.End), int32(part.First)}
		}
	})
}

// rows splits values into rows.
func rows(values []int64, count, width int) [][]int64 {
	out := make([][]int64, count)
	for i := range out {
		out[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	return out
}

// locationFrames holds the frames of each location by its id, the outermost first.
type locationFrames struct {
	byID      report.ByID[int32] // a frame; if negative, -1 minus the index in several
	inlined   [][]int32          // lists of frames for locations with inlined functions
	maxFrames int                // maximum number of frames per location
	none      int32              // frame for an empty stack, if all its frames belong to the allocator; as in report.Frames
}

// newLocationFrames creates frames for all locations, including those without samples, which finish drops.
func (b *stackBuilder) newLocationFrames(p *profile.Profile, t *trimmer) *locationFrames {
	found := &locationFrames{byID: report.NewByID[int32](len(p.Location)), maxFrames: 1, none: b.frame(Frame{Name: "(no stack)"})}
	for _, location := range p.Location {
		found.set(location.ID, b.framesOf(t.locations.Get(location.ID)))
	}
	return found
}

func (p *locationFrames) set(id uint64, frames []int32) {
	if len(frames) == 1 {
		p.byID.Set(id, frames[0])
		return
	}
	p.inlined = append(p.inlined, frames)
	p.byID.Set(id, int32(-len(p.inlined)))
	p.maxFrames = max(p.maxFrames, len(frames))
}

// framesOf returns a location's frames, the outermost first.
func (b *stackBuilder) framesOf(location *profile.Location) (frames []int32) {
	module, path := moduleOf(location), ""
	if location.Mapping != nil {
		path = location.Mapping.File
	}
	if len(location.Line) == 0 {
		frames = append(frames, b.frame(Frame{Name: "0x" + strconv.FormatUint(location.Address, 16), Module: module, path: path}))
	}
	for j := len(location.Line) - 1; j >= 0; j-- {
		line := location.Line[j]
		if line.Function != nil {
			frames = append(frames, b.frame(Frame{Name: line.Function.Name, File: line.Function.Filename, Line: line.Line, Module: module, path: path}))
		}
	}
	return frames
}

func (b *stackBuilder) frame(f Frame) int32 {
	if index, ok := b.frames[f]; ok {
		return index
	}
	index := int32(len(b.stacks.Frames))
	b.frames[f] = index
	b.stacks.Frames = append(b.stacks.Frames, f)
	return index
}

// walk computes the stack of each sample, the outermost frame first, and its hash.
func (b *stackBuilder) walk(p *profile.Profile, t *trimmer, places *locationFrames) (stacks [][]int32, hashes []uint64) {
	const roomFrames = 1 << 16
	stacks, hashes = make([][]int32, len(p.Sample)), make([]uint64, len(p.Sample))
	inParts(len(p.Sample), func(_, from, to int) {
		var space []int32 // shared by the stacks of many samples
		for index := from; index < to; index++ {
			kept := t.remainingStack(p.Sample[index])
			if maxFrames := max(len(kept)*places.maxFrames, 1); cap(space)-len(space) < maxFrames {
				space = make([]int32, 0, max(roomFrames, maxFrames))
			}
			stack := space[len(space):]
			for i := len(kept) - 1; i >= 0; i-- {
				if place := places.byID.Get(kept[i].ID); place >= 0 {
					stack = append(stack, place)
				} else {
					stack = append(stack, places.inlined[-1-place]...)
				}
			}
			if len(stack) == 0 {
				stack = append(stack, places.none)
			}
			space = space[:len(space)+len(stack)]
			stacks[index], hashes[index] = stack[:len(stack):len(stack)], b.hash(stack)
		}
	})
	return stacks, hashes
}

func (b *stackBuilder) hash(stack []int32) uint64 {
	sum := b.seed
	for _, frame := range stack {
		sum = (sum ^ uint64(frame)) * 0x9e3779b97f4a7c15
		sum ^= sum >> 32
	}
	return sum
}

var processors = func() int { return runtime.GOMAXPROCS(0) } // a variable for tests

// inParts calls do for the range 0 to count, split into parts that run in parallel on all processors.
func inParts(count int, do func(part, from, to int)) {
	const minimum = 4096 // minimum size of a part
	parts := min(processors(), 1+count/minimum)
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() { do(part, count*part/parts, count*(part+1)/parts) })
	}
	all.Wait()
}

// trimmer describes a profile without the allocator's own frames.
type trimmer struct {
	locations report.ByID[*profile.Location]
	rules     report.ByID[trimRule] // where stacks are cut
	any       bool                  // some stacks are cut
}

// trimRule tells which part of a stack is removed, as in pprof's Prune.
type trimRule uint8

const (
	keepFrame   trimRule = iota
	trimCallees          // the callees of this location
	trimFrame            // the callees and the location itself
)

// trim determines what pprof does with each location. It uses stacks with two locations, which avoids a copy of a
// million samples.
func trim(p *profile.Profile) (*trimmer, error) {
	t := &trimmer{locations: report.NewByID[*profile.Location](len(p.Location))}
	if p.DropFrames == "" {
		for _, location := range p.Location {
			t.locations.Set(location.ID, location)
		}
		return t, nil
	}
	var caller profile.Location // no name matches it, and no other location has id 0
	asked := &profile.Profile{DropFrames: p.DropFrames, KeepFrames: p.KeepFrames}
	for _, location := range p.Location {
		copied := *location // pprof removes lines
		asked.Location = append(asked.Location, &copied)
		asked.Sample = append(asked.Sample, &profile.Sample{Location: []*profile.Location{&copied, &caller}})
	}
	if err := asked.RemoveUninteresting(); err != nil {
		return nil, err
	}
	t.rules = report.NewByID[trimRule](len(p.Location))
	for i, location := range p.Location {
		t.locations.Set(location.ID, asked.Location[i])
		rule := keepFrame
		if len(asked.Sample[i].Location) == 1 {
			rule = trimFrame
		} else if len(asked.Location[i].Line) < len(location.Line) {
			rule = trimCallees
		}
		t.rules.Set(location.ID, rule)
		t.any = t.any || rule != keepFrame
	}
	return t, nil
}

// remainingStack returns the remaining part of a sample's stack. Frames that the program has not called are not cut.
func (t *trimmer) remainingStack(sample *profile.Sample) []*profile.Location {
	if !t.any {
		return sample.Location
	}
	called := false
	for i := len(sample.Location) - 1; i >= 0; i-- {
		switch rule := t.rules.Get(sample.Location[i].ID); {
		case rule == keepFrame:
			called = true
		case called && rule == trimFrame:
			return sample.Location[i+1:]
		case called:
			return sample.Location[i:]
		}
	}
	return sample.Location
}

// wordMap maps words to numbers. For a million words it takes a fraction of the time of a Go map.
type wordMap struct {
	slots []wordSlot // a power of two, at least half of them free
	shift int
	used  int
}

type wordSlot struct {
	word   uint64
	number int32 // 0: free
}

// expect reserves space for this many words.
func (m *wordMap) expect(words int) {
	shift := 64 - 8
	for words*2 > 1<<(64-shift) {
		shift--
	}
	if 1<<(64-shift) <= len(m.slots) {
		return
	}
	previous := m.slots
	m.slots, m.shift = make([]wordSlot, 1<<(64-shift)), shift
	for _, slot := range previous {
		if slot.number != 0 {
			*m.find(slot.word) = slot.number
		}
	}
}

// at returns a pointer to the number of a word. 0 means that the word is new; the caller must set a nonzero number.
func (m *wordMap) at(word uint64) *int32 {
	if len(m.slots) == 0 {
		m.expect(0)
	}
	number := m.find(word)
	if *number != 0 {
		return number
	}
	if m.used++; m.used*2 > len(m.slots) {
		m.expect(m.used)
		number = m.find(word)
	}
	return number
}

func (m *wordMap) find(word uint64) *int32 {
	for i := word * 0x9e3779b97f4a7c15 >> m.shift; ; i = (i + 1) & uint64(len(m.slots)-1) {
		slot := &m.slots[i]
		if slot.number == 0 {
			slot.word = word
			return &slot.number
		}
		if slot.word == word {
			return &slot.number
		}
	}
}

// clear keeps the memory.
func (m *wordMap) clear() {
	clear(m.slots)
	m.used = 0
}
