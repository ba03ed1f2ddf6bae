package web

import (
	"math"
	"slices"
	"strings"
	"unique"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Suspect is a stack whose memory grows: by how much in a second, and how sure that is.
type Suspect struct {
	Stack []string `json:"stack"`       // functions, innermost first
	Inner int      `json:"inner"`       // so many of them are of a standard library: the next one is who holds the memory
	PerS  float64  `json:"bytes_per_s"` // the median of the slopes between all pairs of moments (Theil and Sen)
	// Sure is the probability, 0 to 1, that memory which neither grows nor falls would not give such an order of values
	// (Mann and Kendall's test, normal approximation, one-sided).
	Sure   float64 `json:"sure"`
	Now    int64   `json:"now"`
	Values []int64 `json:"values"` // bytes in use, moment by moment
	Times  []int64 `json:"times"`  // of the moments, in ms since 1970
}

// leastMoments is below which no order of values says anything.
const leastMoments = 4

// Suspects ranks stacks by how fast what they allocated grows over the moments: none when it is not known when one of them was.
func Suspects(moments []Moment, most int) ([]Suspect, error) {
	if len(moments) < leastMoments || slices.ContainsFunc(moments, func(m Moment) bool { return m.Time == 0 }) {
		return []Suspect{}, nil
	}
	times, since1970 := make([]float64, len(moments)), make([]int64, len(moments))
	found := map[stack]*Suspect{}
	for i, m := range moments {
		times[i], since1970[i] = float64(m.Time)/1000, m.Time
		held, err := m.held()
		if err != nil {
			return nil, err
		}
		for stack, bytes := range held {
			s := found[stack]
			if s == nil {
				names := stack.names()
				s = &Suspect{Stack: names, Inner: report.Inner(names), Values: make([]int64, len(moments)), Times: since1970}
				found[stack] = s
			}
			s.Values[i] = bytes
		}
	}
	out := []Suspect{}
	for _, s := range found {
		s.PerS = slope(times, s.Values)
		s.Sure = certainty(s.Values)
		s.Now = s.Values[len(s.Values)-1]
		if s.PerS > 0 {
			out = append(out, *s)
		}
	}
	// A fast one that may be chance comes behind a slower one that is not.
	slices.SortFunc(out, func(a, b Suspect) int { return descending(a.PerS*weight(a.Sure), b.PerS*weight(b.Sure)) })
	return out[:min(len(out), most)], nil
}

// stack is the names of a stack's functions, innermost first: the same one in all profiles. It is forgotten with the last of them.
type stack unique.Handle[string]

const betweenNames = "\x00"

func stackOf(sample *profile.Sample) stack {
	var names []string
	for _, frame := range report.Frames(sample) {
		names = append(names, frame.Name)
	}
	return stack(unique.Make(strings.Join(names, betweenNames)))
}

func (s stack) names() []string {
	return strings.Split(unique.Handle[string](s).Value(), betweenNames)
}

// inUseByStack says what each stack has in use in a profile, in bytes.
func inUseByStack(p *profile.Profile) (map[stack]int64, error) {
	index, err := report.SampleIndex(p, "inuse", "bytes")
	if err != nil {
		return nil, err
	}
	p = p.Copy()
	if err := p.RemoveUninteresting(); err != nil {
		return nil, err
	}
	held := map[stack]int64{}
	for _, sample := range p.Sample {
		if sample.Value[index] > 0 {
			held[stackOf(sample)] += sample.Value[index]
		}
	}
	return held, nil
}

func weight(sure float64) float64 { return math.Pow(sure, 4) }

func descending(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

func slope(times []float64, values []int64) float64 {
	var slopes []float64
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			if times[j] > times[i] {
				slopes = append(slopes, float64(values[j]-values[i])/(times[j]-times[i]))
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
}

// certainty is Mann and Kendall's test with their correction for ties.
func certainty(values []int64) float64 {
	n, score := float64(len(values)), 0.0
	ties := map[int64]float64{}
	for i, a := range values {
		ties[a]++
		for _, b := range values[i+1:] {
			switch {
			case b > a:
				score++
			case b < a:
				score--
			}
		}
	}
	variance := n * (n - 1) * (2*n + 5)
	for _, t := range ties {
		variance -= t * (t - 1) * (2*t + 5)
	}
	if variance <= 0 || score <= 0 {
		return 0
	}
	return 1 - math.Erfc((score-1)/math.Sqrt(variance/18)/math.Sqrt2)/2
}

// standardError is that of the total of a profile whose own frames are gone.
func standardError(p *profile.Profile, index int) stdError {
	return stdError(math.Sqrt(report.Variance(p, index)))
}
