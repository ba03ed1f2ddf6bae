package owner

import (
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

// candidate holds what a round finds about a function.
type candidate struct {
	ends, all int64 // number of samples that end in it, and that contain it
	callers   map[string]map[int64]int64
	sizes     map[int64]bool
}

// FindWrappers returns the wrappers of malloc in profiles that are shown side by side. Every sample counts, whatever its
// values are: the number of callers does not depend on the memory that is live at the moment.
func FindWrappers(profiles ...*profile.Profile) Wrappers {
	found := Wrappers{}
	var all []*classified
	for _, p := range profiles {
		if p != nil && OwnsMemory(p) {
			all = append(all, classify(p, nil))
		}
	}
	for range maxRounds {
		candidates := map[string]*candidate{}
		for _, c := range all {
			c.collect(candidates)
		}
		added := false
		for name, of := range candidates {
			if of.isWrapper(name) {
				found[name], added = true, true
			}
		}
		if !added {
			break
		}
		for _, c := range all {
			c.mark(found)
		}
	}
	return found
}

func (c *classified) collect(candidates map[string]*candidate) {
	var stack []placed
	var classes []Class
	for _, sample := range c.profile.Sample {
		stack, classes = c.stack(sample, stack[:0], classes[:0])
		part := VisiblePart(classes, c.languages)
		if part.First >= part.End || classes[part.First].IsPassedOver(part.Languages) {
			continue
		}
		owner := stack[part.First].name
		for at := part.First; at < part.joint; at++ {
			name := stack[at].name
			if classes[at].Kind != Program || classes[at].Interpreted || !vagueName.MatchString(name) && !plainName.MatchString(name) {
				continue
			}
			of := candidates[name]
			if of == nil {
				of = &candidate{callers: map[string]map[int64]int64{}, sizes: map[int64]bool{}}
				candidates[name] = of
			}
			of.all++
			if at == part.First {
				of.ends++
				of.addCaller(caller(stack, classes, part, owner), sample.NumLabel["bytes"])
			} else if name == owner {
				of.all-- // recursion
			}
		}
	}
}

// caller returns the nearest function of the program that called the owner; "": none.
func caller(stack []placed, classes []Class, part Part, owner string) string {
	for at := part.First + 1; at < min(part.End, part.joint); at++ {
		if !classes[at].IsPassedOver(part.Languages) && stack[at].name != owner {
			return stack[at].name
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
