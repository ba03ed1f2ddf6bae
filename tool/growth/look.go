package growth

import (
	"regexp"
	"slices"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Look collects unsymbolized heap profiles of a running process. It names the stacks once, at the end.
type Look struct {
	// Name symbolizes the addresses of a profile.
	Name func(*profile.Profile)
	// Hide matches functions that are removed from the stacks; nil: none.
	Hide *regexp.Regexp

	moments []Moment
	sources map[Stack]source
	missing string
}

// source is the sample of a stack.
type source struct {
	sample *profile.Sample
	p      *profile.Profile
}

// Add adds the next profile, with the exact number of live bytes at that time if it is known.
func (l *Look) Add(p *profile.Profile, live *int64) error {
	m, err := NewMoment(p, live, AddressStack)
	if err != nil {
		return err
	}
	if l.sources == nil {
		l.sources = map[Stack]source{}
	}
	for _, sample := range p.Sample {
		l.sources[AddressStack(sample)] = source{sample, p}
	}
	l.moments = append(l.moments, m)
	l.missing = report.MissingOfPython(p)
	return nil
}

// Find returns the growth so far. room is the number of bytes to the limit; 0: unknown.
func (l *Look) Find(room float64) (*Result, error) {
	result, err := Find(l.moments, Options{Frames: l.frames, Room: room})
	if result != nil {
		result.Missing = l.missing
	}
	return result, err
}

// frames symbolizes stacks.
func (l *Look) frames(stacks []Stack) [][]Frame {
	const number = "stack" // a label, so that the samples stay apart and are found again
	parts := map[*profile.Profile]*profile.Profile{}
	for i, stack := range stacks {
		from := l.sources[stack]
		part := parts[from.p]
		if part == nil {
			part = &profile.Profile{
				SampleType: []*profile.ValueType{{Type: "stacks", Unit: "count"}}, PeriodType: from.p.PeriodType, Period: from.p.Period,
				Mapping: from.p.Mapping, Location: from.p.Location, Function: from.p.Function, DropFrames: from.p.DropFrames, KeepFrames: from.p.KeepFrames,
			}
			parts[from.p] = part
		}
		part.Sample = append(part.Sample, &profile.Sample{Location: from.sample.Location, Value: []int64{1},
			NumLabel: map[string][]int64{number: {int64(i + 1)}}, NumUnit: map[string][]string{number: {"count"}}})
	}
	named := make([][]Frame, len(stacks))
	for _, part := range parts {
		part = part.Compact() // a copy: naming changes the profile, and takes time
		if l.Name != nil {
			l.Name(part)
		}
		_ = part.RemoveUninteresting()
		for _, sample := range part.Sample {
			frames := framesOf(sample)
			if l.Hide != nil {
				frames = slices.DeleteFunc(frames, func(f Frame) bool { return l.Hide.MatchString(f.Name) })
			}
			if len(frames) == 0 {
				frames = []Frame{{Name: "(no stack)"}}
			}
			named[report.Label(sample, number)-1] = frames
		}
	}
	return named
}

// Enough reports whether a longer look would hardly change the result: what grows is known well, and explains the exact
// growth of all live memory.
func (r *Result) Enough() bool {
	const certain, accurate, explained = 0.999, 0.15, 0.8
	sum := 0.0
	for _, row := range r.Rows {
		if row.Confidence < certain || row.Error > accurate*row.PerS {
			return false
		}
		sum += row.PerS
	}
	return r.Steady && len(r.Rows) > 0 && r.Exact != nil && sum > explained**r.Exact
}
