package report

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// StandardError is how far sampling has probably taken a value from the truth: 0 where everything was recorded, NaN where
// nobody knows. JSON has null for that.
type StandardError float64

// Known is false where nothing can be said.
func (e StandardError) Known() bool { return !math.IsNaN(float64(e)) }

// MarshalJSON writes a number or null.
func (e StandardError) MarshalJSON() ([]byte, error) {
	if !e.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

// Variance estimates the sampling error of the total at index, squared. A block that had s bytes when it was
// allocated is recorded with probability q = 1-exp(-s/R) and then counted as 1/q blocks, so n counted blocks come from n·q recorded
// ones, each of which adds (1-q)/q² to the variance of the count: n·(1-q)/q in all, for bytes times the square of its size now. What
// is not the size of a block has an error that the profile states. NaN where nobody knows.
func Variance(p *profile.Profile, index int) float64 {
	if stated, found := StatedError(p, index); found {
		return stated * stated
	}
	sum, of := samplingError{}, samplingOf(p, index)
	for _, sample := range p.Sample {
		sum.add(of(sample))
	}
	return sum.variance()
}

// samplingError is what is known of the error of a sum of rows.
type samplingError struct {
	squares float64 // the variance that those which were recorded let expect
	missing float64 // how many blocks were not recorded, estimated
	largest float64 // the most that one recorded block counts
}

func (s *samplingError) add(more samplingError) {
	s.squares += more.squares
	s.missing += more.missing
	s.largest = max(s.largest, more.largest)
}

// variance allows for one block more than was recorded, where one may be missing at all: of few records, or of large blocks that are
// nearly all recorded, the variance that is estimated by the records alone is too small when the sum is (as the interval of Agresti
// and Coull does for a share).
func (s *samplingError) variance() float64 {
	if s.missing == 0 {
		return s.squares
	}
	const certain = 40 // of more than one in 40 missing blocks this one is; of fewer a part
	return s.squares + s.largest*s.largest*min(1, certain*s.missing)
}

// samplingOf returns what one row of the profile adds to it.
func samplingOf(p *profile.Profile, index int) func(*profile.Sample) samplingError {
	name := p.SampleType[index].Type
	kind, isBytes := strings.CutSuffix(name, "space")
	if !isBytes {
		kind = strings.TrimSuffix(name, "objects")
	}
	if kind == "requested_" { // of the blocks that were allocated
		kind = "alloc_"
	}
	column := func(name string) int {
		return slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
	}
	objects, bytes := column(kind+"objects"), column(kind+"space")
	if objects < 0 || bytes < 0 || kind == "fragmentation_" {
		return func(sample *profile.Sample) samplingError {
			if sample.Value[index] == 0 {
				return samplingError{}
			}
			return samplingError{squares: math.NaN()}
		}
	}
	return func(sample *profile.Sample) samplingError {
		// Of a difference at least that of what is left.
		n, b := math.Abs(float64(sample.Value[objects])), math.Abs(float64(sample.Value[bytes]))
		interval := intervalOf(p, sample)
		switch {
		case n == 0 || b == 0 || interval == 1:
			return samplingError{}
		case interval <= 0:
			return samplingError{squares: math.NaN()}
		}
		size := b / n
		if drawn := number(sample, drawnLabel); drawn > 0 {
			size = float64(drawn)
		}
		q := -math.Expm1(-size / float64(interval))
		each := float64(sample.Value[index]) / n
		missing := n * (1 - q)
		return samplingError{squares: missing / q * each * each, missing: missing, largest: math.Abs(each) / q}
	}
}

// intervalLabel stands beside rows whose samples were drawn at another mean interval than the profile's, which is what the option
// `sample` is when it is taken (core/profile/heap_profile.h).
const intervalLabel = "interval"

// drawnLabel is the size that the blocks of a row had when they were drawn, where realloc has resized them in place since.
const drawnLabel = "drawn"

// intervalOf is the mean interval at which a row's samples were drawn; 1: everything was recorded; 0: not known.
func intervalOf(p *profile.Profile, sample *profile.Sample) int64 {
	if interval := number(sample, intervalLabel); interval > 0 {
		return interval
	}
	return p.Period
}

// restateIntervals makes p one whose interval is period: its rows are labelled as those of such a profile are.
func restateIntervals(p *profile.Profile, period int64) {
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

// As core/profile/heap_profile_writer.cc, pool_profile.cc and fragmentation_profile.cc write them.
var statedErrors = map[string]*regexp.Regexp{
	"inuse_space":         regexp.MustCompile(`^in use: (\d+) bytes estimated, standard error (\d+) bytes`),
	"fragmentation_space": regexp.MustCompile(`^fragmentation: .*?(\d+) bytes charged[^,]*, standard error (\d+) bytes`),
}

// StatedError is the standard error of the total that the profile states itself, which it knows best: a block may have been resized
// since it was sampled, or be charged more or less of what others left free around it. It is that of a certain total: what is
// filtered, or a difference, has another.
func StatedError(p *profile.Profile, index int) (float64, bool) {
	pattern := statedErrors[p.SampleType[index].Type]
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
