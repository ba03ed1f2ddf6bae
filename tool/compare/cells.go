package compare

import "slices"

// With five runs each, two identical allocators are separated (no overlap of their ranges) once in 126 times; with
// three runs, once in ten. Identical programs also differ between starts because of their memory layout. Therefore no
// difference is reported
//  1. with fewer than five runs of either allocator;
//  2. if the ranges from smallest to largest value overlap;
//  3. if times differ by less than 5 %, or by less than 15 % with two or more threads.
//
// bench/harness/compare.py has the same rules; a test compares the two implementations.
const (
	MinRuns              = 5
	minRatioSingleThread = 0.05
	minRatioMultiThread  = 0.15
	epsilon              = 1e-6 // smaller times and sizes have no ratio
)

// Cell summarizes one allocator's values of one measure.
type Cell struct {
	Median  float64 `json:"median"`
	Low     float64 `json:"smallest"`
	High    float64 `json:"largest"`
	Ratio   float64 `json:"ratio,omitempty"` // of the medians, relative to the best; absent if the best is about zero and this one is not
	Best    bool    `json:"best"`
	Unclear bool    `json:"unclear"` // the difference from the best is not significant
	Runs    int     `json:"runs"`
}

// Median requires at least one value.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// MinDifference returns the minimum significant difference of two medians, as a fraction of the smaller one.
func MinDifference(m Measure, threads int) float64 {
	switch {
	case m.Unit != Seconds:
		return 0 // memory and counts hardly vary between runs
	case threads < 2:
		return minRatioSingleThread
	}
	return minRatioMultiThread
}

// SignificantlyDiffer reports whether two lists of values differ significantly.
func SignificantlyDiffer(one, two []float64, minimum float64) bool {
	if min(len(one), len(two)) < MinRuns || slices.Min(one) <= slices.Max(two) && slices.Min(two) <= slices.Max(one) {
		return false
	}
	a, b := Median(one), Median(two)
	return max(a, b)-min(a, b) >= minimum*max(min(a, b), epsilon)
}

// Cells compares the values of all allocators that have any, by name. Among equal medians the first in names is the
// best.
func Cells(names []string, values map[string][]float64, minimum float64) map[string]Cell {
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
			Unclear: name != best && !SignificantlyDiffer(some, values[best], minimum),
		}
	}
	return cells
}

// ratio returns 0 if there is no ratio.
func ratio(median, best float64) float64 {
	if best < epsilon && median >= epsilon {
		return 0
	}
	return max(median, epsilon) / max(best, epsilon)
}
