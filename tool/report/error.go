package report

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// StandardError is the standard error of a value due to sampling: 0 if everything was recorded, NaN if it is unknown.
// JSON output has null for NaN.
type StandardError float64

// Known returns false if the error is unknown.
func (e StandardError) Known() bool { return !math.IsNaN(float64(e)) }

// MarshalJSON writes a number or null.
func (e StandardError) MarshalJSON() ([]byte, error) {
	if !e.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

// Variance estimates the variance of the total at index due to sampling. A block that had s bytes when it was
// allocated is recorded with probability q = 1-exp(-s/R) and then counts as 1/q blocks. So n counted blocks come from
// n·q recorded blocks, each of which adds (1-q)/q² to the variance of the count: n·(1-q)/q in total, times the square
// of the block's present size for a variance of bytes. For values that are not block sizes the profile states the error
// itself. The result is NaN if the variance is unknown.
func Variance(p *profile.Profile, index int) float64 {
	if stated, found := StatedError(p, index); found {
		return stated * stated
	}
	sum, of := samplingError{}, newSamplingError(p, index)
	for _, sample := range p.Sample {
		sum.add(of(sample))
	}
	return sum.variance()
}

// samplingError accumulates the data for the error of a sum of rows.
type samplingError struct {
	squares float64 // the variance estimated from the recorded blocks
	missing float64 // the estimated number of blocks that were not recorded
	largest float64 // the largest value that one recorded block represents
}

func (s *samplingError) add(more samplingError) {
	s.squares += more.squares
	s.missing += more.missing
	s.largest = max(s.largest, more.largest)
}

// variance allows for one block more than was recorded if a block may be missing at all. For few records, or for large
// blocks that are nearly all recorded, an estimate from the records alone is too small whenever the sum is too small
// (compare the Agresti-Coull interval for a proportion).
func (s *samplingError) variance() float64 {
	if s.missing == 0 {
		return s.squares
	}
	const certain = 40 // the extra block counts in full if at least 1/40 block is estimated to be missing, else in part
	return s.squares + s.largest*s.largest*min(1, certain*s.missing)
}

// newSamplingError returns a function that computes the contribution of one row.
func newSamplingError(p *profile.Profile, index int) func(*profile.Sample) samplingError {
	name := p.SampleType[index].Type
	kind, isBytes := strings.CutSuffix(name, "space")
	if !isBytes {
		kind = strings.TrimSuffix(name, "objects")
	}
	if kind == "requested_" { // of the allocated blocks
		kind = "alloc_"
	}
	objects, bytes := Column(p, kind+"objects"), Column(p, kind+"space")
	if allocations := Column(p, "alloc_objects"); kind == "inuse_" && objects >= 0 && allocations >= 0 && IsDifference(p) {
		return func(sample *profile.Sample) samplingError {
			return blocksError(p, sample, differing(sample, allocations, objects), isBytes)
		}
	}
	if objects < 0 || bytes < 0 || kind == "fragmentation_" {
		return func(sample *profile.Sample) samplingError {
			if sample.Value[index] == 0 {
				return samplingError{}
			}
			return samplingError{squares: math.NaN()}
		}
	}
	return func(sample *profile.Sample) samplingError {
		// For a difference of other values this is at least the error of the remaining rows.
		n, b := math.Abs(float64(sample.Value[objects])), math.Abs(float64(sample.Value[bytes]))
		interval := intervalOf(p, sample)
		switch {
		case n == 0 || b == 0 || interval == 1:
			return samplingError{}
		case interval <= 0:
			return samplingError{squares: math.NaN()}
		}
		size := b / n
		if drawn := Label(sample, sampledSizeLabel); drawn > 0 {
			size = float64(drawn)
		}
		q := SampleProbability(size, float64(interval))
		each := float64(sample.Value[index]) / n
		missing := n * (1 - q)
		return samplingError{squares: missing / q * each * each, missing: missing, largest: math.Abs(each) / q}
	}
}

// blocksError returns the error of a difference, or of a sum, of n blocks of one row: of their number or of their bytes.
func blocksError(p *profile.Profile, sample *profile.Sample, n float64, isBytes bool) samplingError {
	interval, size := intervalOf(p, sample), blockSize(p, sample)
	switch {
	case n == 0 || interval == 1:
		return samplingError{}
	case interval <= 0 || size <= 0:
		return samplingError{squares: math.NaN()}
	}
	q, each := SampleProbability(float64(cmp.Or(Label(sample, sampledSizeLabel), size)), float64(interval)), 1.0
	if isBytes {
		each = float64(size)
	}
	missing := n * (1 - q)
	return samplingError{squares: missing / q * each * each, missing: missing, largest: each / q}
}

// blockSize returns the size of a row's blocks: its label, or what follows from the values.
func blockSize(p *profile.Profile, sample *profile.Sample) int64 {
	if size := Label(sample, "bytes"); size > 0 {
		return size
	}
	for _, kind := range []string{"inuse_", "alloc_"} {
		if objects, bytes := Column(p, kind+"objects"), Column(p, kind+"space"); objects >= 0 && bytes >= 0 && sample.Value[objects] != 0 {
			return sample.Value[bytes] / sample.Value[objects]
		}
	}
	return 0
}

// intervalLabel marks rows with samples drawn at another mean interval than that of the profile, which is the
// value of the option `sample` when the profile is taken (core/profile/heap/heap_profile.h).
const intervalLabel = "interval"

// sampledSizeLabel is the size of a row's blocks when they were sampled, for blocks that realloc has resized in place
// since.
const sampledSizeLabel = "drawn"

// intervalOf returns the mean interval at which a row's samples were drawn. 1: everything was recorded; 0: unknown.
func intervalOf(p *profile.Profile, sample *profile.Sample) int64 {
	if interval := Label(sample, intervalLabel); interval > 0 {
		return interval
	}
	return p.Period
}

// rescaleIntervals changes the interval of p to period: it relabels the rows as in a profile with that interval.
func rescaleIntervals(p *profile.Profile, period int64) {
	for _, sample := range p.Sample {
		switch interval := intervalOf(p, sample); {
		case interval == period || interval == 0:
			delete(sample.NumLabel, intervalLabel)
			delete(sample.NumUnit, intervalLabel)
		default:
			if sample.NumLabel == nil {
				sample.NumLabel = map[string][]int64{}
			}
			if sample.NumUnit == nil {
				sample.NumUnit = map[string][]string{}
			}
			sample.NumLabel[intervalLabel], sample.NumUnit[intervalLabel] = []int64{interval}, []string{"bytes"}
		}
	}
	p.Period = period
}

// The formats of core/profile/heap/heap_profile_writer.cc, pool_profile.cc and fragmentation_profile.cc.
var commentErrors = map[string]*regexp.Regexp{
	"inuse_space":         regexp.MustCompile(`^in use: (\d+) bytes estimated, standard error (\d+) bytes`),
	"fragmentation_space": regexp.MustCompile(`^fragmentation: .*?(\d+) bytes charged[^,]*, standard error (\d+) bytes`),
}

// StatedError returns the standard error of the total that the profile states itself. That value is better than an
// estimate: a block may have been resized since it was sampled, or may be charged with more or less free memory around
// it. It is valid only for the total of the whole profile, and not for a filtered profile or a difference.
func StatedError(p *profile.Profile, index int) (float64, bool) {
	pattern := commentErrors[p.SampleType[index].Type]
	if pattern == nil {
		return 0, false
	}
	for _, comment := range p.Comments {
		found := pattern.FindStringSubmatch(comment)
		if found == nil {
			continue
		}
		estimate, err1 := strconv.ParseFloat(found[1], 64)
		stated, err2 := strconv.ParseFloat(found[2], 64)
		rounding := max(float64(len(p.Sample)), estimate/1000)
		if err1 == nil && err2 == nil && math.Abs(float64(Total(p, index))-estimate) <= rounding {
			return stated, true
		}
	}
	return 0, false
}
