package owner

import (
	"iter"
	"maps"
	"regexp"
	"slices"

	"github.com/google/pprof/profile"
)

// A wrapper of malloc, such as zmalloc or ngx_palloc, is a function of the program that only passes on memory to its
// callers. Neither the name nor the profile alone identifies it, so both must:
//
//   - Leaf: at least leafShare of its stacks end in it, apart from functions that are passed over. A function that calls
//     other functions of the program which own memory is more than a wrapper.
//   - It has callers. A wrapper without a caller in the profile owns what it allocates.
//   - Its name ends in malloc, strdup or a similar word (plainName), or it contains alloc, new, dup, grow or reserve
//     (vagueName). A function with a vague name must have minCallers callers and pass on minSizes sizes of blocks, and
//     the callers must differ in the size that they request most: a constructor such as node_new allocates blocks of its
//     own size, whoever calls it. Without sizes in the profile the number of callers must be minCallersAlone.
//     A function without a symbol is treated like one with a vague name. It is also a wrapper if the names of all of its
//     callers are plain: it is what sqlite3Malloc and sqlite3Realloc call.
//
// Wrappers call each other, so the search repeats with the found ones passed over, until it finds no more.
const (
	leafShare       = 0.9
	minCallers      = 3
	minCallersAlone = 6
	minSizes        = 3
	maxRounds       = 16
)

// noSymbol matches the name of a function without a symbol: libsqlite3.so.0.8.6+0xa74f0.
const noSymbol = `.\+0x[0-9a-f]+$`

var (
	plainName = regexp.MustCompile(`(?i)(malloc|calloc|realloc|zalloc|memalign|strn?dup|memdup|mallocz)(_?(usable|internal|array|impl|aligned|zero(ed)?|n|64|32|raw|or_die|wrapper|func|size|num|count))*_*[0-9]?$`)
	vagueName = regexp.MustCompile(`(?i)alloc|new|dup|grow|reserve|` + noSymbol)
	unnamed   = regexp.MustCompile(noSymbol)
)

// Wrappers is a set of names of functions.
type Wrappers map[string]bool

// Stack is a stack with the sizes of the blocks that were allocated there.
type Stack struct {
	Names   []string // innermost first
	Classes []Class  // of the names
	Sizes   []int64  // bytes; none: unknown
}

// candidate holds what a round finds about a function.
type candidate struct {
	ends, all int64 // number of samples that end in it, and that contain it
	callers   map[string]map[int64]int64
	sizes     map[int64]bool
}

// FindWrappers returns the wrappers of malloc in profiles that are shown side by side. Every sample counts, whatever its
// values are: the number of callers does not depend on the memory that is live at the moment.
func FindWrappers(profiles ...*profile.Profile) Wrappers {
	var all []*classified
	languages := map[string]bool{}
	for _, p := range profiles {
		if p != nil && OwnsMemory(p) {
			c := classify(p, nil)
			all = append(all, c)
			for _, language := range c.languages {
				languages[language] = true
			}
		}
	}
	return FindWrappersIn(func(yield func(Stack) bool) {
		for _, c := range all {
			for stack := range c.stacks() {
				if !yield(stack) {
					return
				}
			}
		}
	}, slices.Collect(maps.Keys(languages)))
}

// FindWrappersIn returns the wrappers of malloc in stacks. languages are those of interpreted functions (Languages).
func FindWrappersIn(stacks iter.Seq[Stack], languages []string) Wrappers {
	found := Wrappers{}
	s := wrapperSearch{languages: languages, fits: map[string]bool{}}
	for range maxRounds {
		s.candidates = map[string]*candidate{}
		for stack := range stacks {
			stack.Mark(found)
			s.collect(stack)
		}
		added := false
		for name, of := range s.candidates {
			if of.isWrapper(name) {
				found[name], added = true, true
			}
		}
		if !added {
			break
		}
	}
	return found
}

// Mark sets the classes of wrappers.
func (s Stack) Mark(wrappers Wrappers) {
	if len(wrappers) == 0 {
		return
	}
	for i, name := range s.Names {
		s.Classes[i].SetWrapper(wrappers, name)
	}
}

// wrapperSearch is one call of FindWrappersIn.
type wrapperSearch struct {
	languages  []string
	candidates map[string]*candidate // of this round
	fits       map[string]bool       // whether a name may be that of a wrapper
}

func (s *wrapperSearch) fitsName(name string) bool {
	fits, known := s.fits[name]
	if !known {
		fits = vagueName.MatchString(name) || plainName.MatchString(name)
		s.fits[name] = fits
	}
	return fits
}

func (s *wrapperSearch) collect(stack Stack) {
	part := VisiblePart(stack.Classes, s.languages)
	if part.First >= part.End || stack.Classes[part.First].IsPassedOver(part.Languages) {
		return
	}
	owner := stack.Names[part.First]
	for at := part.First; at < part.joint; at++ {
		name := stack.Names[at]
		if stack.Classes[at].Kind != Program || stack.Classes[at].Interpreted || !s.fitsName(name) {
			continue
		}
		of := s.candidates[name]
		if of == nil {
			of = &candidate{callers: map[string]map[int64]int64{}, sizes: map[int64]bool{}}
			s.candidates[name] = of
		}
		of.all++
		if at == part.First {
			of.ends++
			of.addCaller(stack.caller(part, owner), stack.Sizes)
		} else if name == owner {
			of.all-- // recursion
		}
	}
}

// caller returns the nearest function of the program that called the owner; "": none.
func (s Stack) caller(part Part, owner string) string {
	for at := part.First + 1; at < min(part.End, part.joint); at++ {
		if !s.Classes[at].IsPassedOver(part.Languages) && s.Names[at] != owner {
			return s.Names[at]
		}
	}
	return ""
}

func (of *candidate) addCaller(name string, sizes []int64) {
	if name == "" {
		return
	}
	if of.callers[name] == nil {
		of.callers[name] = map[int64]int64{}
	}
	for _, size := range sizes {
		of.callers[name][size]++
		of.sizes[size] = true
	}
}

func (of *candidate) isWrapper(name string) bool {
	if len(of.callers) == 0 || float64(of.ends) < leafShare*float64(of.all) {
		return false
	}
	switch {
	case plainName.MatchString(name), unnamed.MatchString(name) && of.callersArePlain():
		return true
	case len(of.sizes) == 0:
		return len(of.callers) >= minCallersAlone
	}
	return len(of.callers) >= minCallers && len(of.sizes) >= minSizes && of.sizesDiffer()
}

func (of *candidate) callersArePlain() bool {
	for caller := range of.callers {
		if !plainName.MatchString(caller) {
			return false
		}
	}
	return true
}

// sizesDiffer reports whether not all callers request the same size most often.
func (of *candidate) sizesDiffer() bool {
	var most []int64
	for _, sizes := range of.callers {
		best, count := int64(0), int64(0)
		for size, n := range sizes {
			if n > count || n == count && size < best {
				best, count = size, n
			}
		}
		most = append(most, best)
	}
	slices.Sort(most)
	return len(slices.Compact(most)) > 1
}
