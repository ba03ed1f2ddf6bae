package growth

import "math"

// This file finds wrappers of malloc that tool/owner does not know by name: functions whose callers get blocks of
// different sizes. Memory belongs to the caller of such a function. A wrapper with one caller cannot be found.

// sizesOf are the sizes of the blocks that one caller gets through a function, with the number of samples.
type sizesOf struct {
	sizes   map[int64]bool
	samples float64
}

// through identifies a function together with the functions that it calls to allocate.
type through struct{ function, inner string }

// ownerOf returns the index of the owner, which is not a wrapper.
func (s *search) ownerOf(stack []Frame) int {
	at := 0
	for s.wrappers[stack[at].Name] {
		next := s.nextCaller(stack, at)
		if next < 0 {
			break
		}
		at = next
	}
	return at
}

// nextCaller returns the index of the caller of stack[at] that is no intermediary, or -1.
func (s *search) nextCaller(stack []Frame, at int) int {
	for i := at + 1; i < len(stack); i++ {
		if stack[i].Name != stack[at].Name && !stack[i].passedOver {
			return i
		}
	}
	return -1
}

// findWrappers finds wrappers, and wrappers of wrappers.
func (s *search) findWrappers(rows map[Key]Counts, framesOf func(Stack) (stack []Frame, inner string)) {
	const mostNested = 4
	s.wrappers = map[string]bool{}
	for range mostNested {
		callers := map[through]map[string]*sizesOf{}
		for key, counts := range rows {
			stack, inner := framesOf(key.Stack)
			if len(stack) == 0 || key.Size == 0 {
				continue
			}
			at := s.ownerOf(stack)
			next := s.nextCaller(stack, at)
			if next < 0 {
				continue
			}
			t := through{stack[at].Name, inner + betweenNames + nameOf(stack[:at])}
			if callers[t] == nil {
				callers[t] = map[string]*sizesOf{}
			}
			callers[t][stack[next].Name] = callers[t][stack[next].Name].with(key, counts)
		}
		found := false
		for t, sizes := range callers {
			if getsTheSize(sizes) {
				s.wrappers[t.function], found = true, true
			}
		}
		if !found {
			return
		}
	}
}

func (s *sizesOf) with(key Key, counts Counts) *sizesOf {
	if s == nil {
		s = &sizesOf{sizes: map[int64]bool{}}
	}
	s.sizes[key.Size] = true
	c := change{key: key}
	s.samples += c.sampled() * math.Max(counts.Allocated, counts.Live)
	return s
}

// getsTheSize reports whether two callers get blocks of different sizes through the same function.
func getsTheSize(callers map[string]*sizesOf) bool {
	const least = 10 // samples, so that the sets of sizes are not different by chance
	var known []*sizesOf
	for _, one := range callers {
		if one.samples < least {
			continue
		}
		for _, other := range known {
			if disjoint(one.sizes, other.sizes) {
				return true
			}
		}
		known = append(known, one)
	}
	return false
}

func disjoint(a, b map[int64]bool) bool {
	for size := range a {
		if b[size] {
			return false
		}
	}
	return true
}
