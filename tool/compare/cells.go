package compare

import "slices"

// With five runs each, two allocators that are the same come apart (no run of one between those of the other) once in
// 126 times; with three, once in ten. And identical programs differ from one start to the next by where their memory
// happens to lie. So no difference is called
//  1. with fewer than five runs of either;
//  2. where the smallest-to-largest spreads overlap;
//  3. where times differ by less than 5 %, or by less than 15 % with two threads or more.
//
// These are the rules of bench/harness/compare.py; a test holds the two against each other.
const (
	LeastRuns           = 5
	leastDifferenceOne  = 0.05
	leastDifferenceMore = 0.15
	nothing             = 1e-6 // a time or a size of nothing has no ratio
)

// Cell is one allocator's values of one measure.
type Cell struct {
	Median  float64 `json:"median"`
	Low     float64 `json:"smallest"`
	High    float64 `json:"largest"`
	Ratio   float64 `json:"ratio,omitempty"` // of the medians, to the best; absent where the best is nothing and this is not
	Best    bool    `json:"best"`
	Unclear bool    `json:"unclear"` // no difference to the best can be called
	Runs    int     `json:"runs"`
}

// Median of values, of which there is at least one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// LeastDifference is the part of the smaller median by which two must differ.
func LeastDifference(m Measure, threads int) float64 {
	switch {
	case m.Unit != Seconds:
		return 0 // of memory and counts: what a program takes up hardly changes from run to run
	case threads < 2:
		return leastDifferenceOne
	}
	return leastDifferenceMore
}

// Differ says whether these two lists of values may be called different.
func Differ(one, two []float64, least float64) bool {
	if min(len(one), len(two)) < LeastRuns || slices.Min(one) <= slices.Max(two) && slices.Min(two) <= slices.Max(one) {
		return false
	}
	a, b := Median(one), Median(two)
	return max(a, b)-min(a, b) >= least*max(min(a, b), nothing)
}

// Cells compares the values of the allocators that have some, by name; of equal medians the first of names is the best.
func Cells(names []string, values map[string][]float64, least float64) map[string]Cell {
	best := ""
	for _, name := range names {
		if len(values[name]) > 0 && (best == "" || Median(values[name]) < Median(values[best])) {
			best = name
		}
	}
	cells := map[string]Cell{}
	for _, name := range names {
		some := values[name]
		if len(some) == 0 {
			continue
		}
		cells[name] = Cell{
			Median: Median(some), Low: slices.Min(some), High: slices.Max(some), Runs: len(some),
			Ratio: ratio(Median(some), Median(values[best])), Best: name == best,
			Unclear: name != best && !Differ(some, values[best], least),
		}
	}
	return cells
}

// ratio is 0 where there is none.
func ratio(median, best float64) float64 {
	if best < nothing && median >= nothing {
		return 0
	}
	return max(median, nothing) / max(best, nothing)
}
