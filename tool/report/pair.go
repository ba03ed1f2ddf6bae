package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// This file pairs the rows of two heap profiles of one process. A sampled block that is live in both profiles adds
// nothing to the error of the difference. How many blocks are live in only one of them is bounded by the numbers of
// blocks that were allocated and freed in between, and by the numbers that were live.

// StackKey identifies a stack by its addresses, relative to their files: a library that is unloaded between two
// profiles has other addresses afterwards.
func StackKey(s *profile.Sample) string {
	var b strings.Builder
	for _, loc := range s.Location {
		address := loc.Address
		if m := loc.Mapping; m != nil && m.BuildID != "" {
			b.WriteString(m.BuildID)
			address += m.Offset - m.Start
		}
		b.WriteString(strconv.FormatUint(address, 16))
		b.WriteByte(',')
	}
	return b.String()
}

// RowKey identifies a row in two profiles of one process. If everything is recorded, some rows of resized blocks share
// a key.
func RowKey(p *profile.Profile, s *profile.Sample) string {
	var b strings.Builder
	b.WriteString(StackKey(s))
	for _, n := range []int64{Label(s, "bytes"), Label(s, "asked"), Label(s, "moved"), Label(s, sampledSizeLabel), cmp.Or(Label(s, intervalLabel), p.Period)} {
		b.WriteString(strconv.FormatInt(n, 10))
		b.WriteByte(',')
	}
	return b.String()
}

// differingLabel is the number of blocks of a row that are live at only one of two moments, at most, in a profile of the
// difference.
const differingLabel = "differing"

// pairedRow holds the numbers of blocks of one row in both profiles.
type pairedRow struct {
	allocBefore, liveBefore, allocAfter, liveAfter float64
}

// differing is an upper bound of the number of blocks that are live in only one of the profiles.
func (r pairedRow) differing() float64 {
	grown := r.liveAfter - r.liveBefore
	// A block that is resized in place changes its row without an allocation.
	allocated := max(r.allocAfter-r.allocBefore, grown, 0)
	return min(2*allocated-grown, r.liveBefore+r.liveAfter)
}

// pairs are the rows of two profiles of one process by RowKey.
type pairs map[string]pairedRow

// pairRows returns nil if the profiles are not of one process, or are not both heap profiles with allocations.
func pairRows(before, after *profile.Profile) pairs {
	if !sameProcess(before, after) || IsDifference(before) || IsDifference(after) {
		return nil
	}
	rows := pairs{}
	for k, p := range []*profile.Profile{before, after} {
		alloc, live := Column(p, "alloc_objects"), Column(p, "inuse_objects")
		if alloc < 0 || live < 0 {
			return nil
		}
		if slices.ContainsFunc(p.Location, func(loc *profile.Location) bool { return loc.Address == 0 }) {
			return nil // of another format, with names only
		}
		for _, sample := range p.Sample {
			key := RowKey(p, sample)
			row := rows[key]
			if k == 0 {
				row.allocBefore += float64(sample.Value[alloc])
				row.liveBefore += float64(sample.Value[live])
			} else {
				row.allocAfter += float64(sample.Value[alloc])
				row.liveAfter += float64(sample.Value[live])
			}
			rows[key] = row
		}
	}
	for _, row := range rows {
		// The counts of allocations of one process never fall, except by a reset of all samples.
		const rounding = 1
		if row.allocAfter < row.allocBefore-rounding {
			return nil
		}
	}
	return rows
}

// Paired reports whether a difference of the two profiles has the error of the blocks that differ, and not of both
// profiles.
func Paired(before, after *profile.Profile) bool { return pairRows(before, after) != nil }

// ChangeErrors returns the standard errors of the changes of totals, for sample types that both profiles have; nil if the
// profiles are not of one process, and NaN for values that do not count blocks.
func ChangeErrors(before, after *profile.Profile, types []string) []StandardError {
	rows := pairRows(before, after)
	if rows == nil {
		return nil
	}
	errors := make([]StandardError, len(types))
	for i, name := range types {
		sum, counted := samplingError{}, map[string]bool{}
		for _, p := range []*profile.Profile{before, after} {
			errorOf := rows.errorOf(p, Column(p, name), counted)
			if errorOf == nil {
				sum.squares = math.NaN()
				break
			}
			for _, sample := range p.Sample {
				sum.add(errorOf(sample))
			}
		}
		errors[i] = StandardError(math.Sqrt(sum.variance()))
	}
	return errors
}

// mark labels the rows of the difference.
func (r pairs) mark(difference *profile.Profile) {
	for _, sample := range difference.Sample {
		if sample.NumLabel == nil {
			sample.NumLabel = map[string][]int64{}
		}
		if sample.NumUnit == nil {
			sample.NumUnit = map[string][]string{}
		}
		n := int64(math.Ceil(r[RowKey(difference, sample)].differing()))
		sample.NumLabel[differingLabel], sample.NumUnit[differingLabel] = []int64{n}, []string{"count"}
	}
}

// differing returns the number of blocks of a row of a difference that are live at only one of the two moments, at most:
// the label, or the blocks that were allocated and freed in between.
func differing(sample *profile.Sample, allocations, live int) float64 {
	if values, known := sample.NumLabel[differingLabel]; known {
		return float64(values[0])
	}
	grown := float64(sample.Value[live])
	return 2*max(float64(sample.Value[allocations]), grown, 0) - grown
}

// errorOf returns a function that computes the error of the change of a row, or nil if the values at index are not those
// of blocks. A row that is in both profiles is counted once: counted holds the keys so far.
func (r pairs) errorOf(p *profile.Profile, index int, counted map[string]bool) func(*profile.Sample) samplingError {
	name := p.SampleType[index].Type
	kind, isBytes := strings.CutSuffix(name, "_space")
	if kind = strings.TrimSuffix(kind, "_objects"); r == nil || kind != "inuse" && kind != "alloc" {
		return nil
	}
	return func(sample *profile.Sample) samplingError {
		key := RowKey(p, sample)
		if counted[key] || blockSize(p, sample) == 0 { // without blocks in this profile
			return samplingError{}
		}
		counted[key] = true
		row := r[key]
		if kind == "alloc" {
			return blocksError(p, sample, math.Abs(row.allocAfter-row.allocBefore), isBytes)
		}
		return blocksError(p, sample, row.differing(), isBytes)
	}
}

// sameProcess reports whether the files of two profiles are mapped at the same addresses. Most addresses are random in
// each process.
func sameProcess(a, b *profile.Profile) bool {
	type segment struct {
		file   string
		offset uint64
	}
	starts := map[segment]uint64{}
	of := func(m *profile.Mapping) segment { return segment{cmp.Or(m.BuildID, m.File), m.Offset} }
	for _, m := range a.Mapping {
		starts[of(m)] = m.Start
	}
	same, other := 0, 0
	for _, m := range b.Mapping {
		switch start, known := starts[of(m)]; {
		case !known:
		case start == m.Start:
			same++
		default:
			other++ // loaded again
		}
	}
	return same > other
}

// IsDifference reports whether a profile is a difference or a window, and not a state.
func IsDifference(p *profile.Profile) bool {
	return slices.ContainsFunc(p.Comments, difference.MatchString)
}
