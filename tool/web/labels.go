package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Labels describes how the rows of a profile differ apart from their stacks.
type Labels struct {
	// Least and Most are the smallest and largest block size. 0: the rows have no sizes.
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
	// Texts holds the values of each text label: lifetimes of blocks, which thread freed them, their pool.
	Texts map[string][]string `json:"texts"`
}

// labelsOf collects the labels of all rows, including those of the base.
func labelsOf(profiles ...*profile.Profile) *Labels {
	l := &Labels{Texts: map[string][]string{}}
	seen := map[string]bool{}
	for _, p := range profiles {
		if p == nil {
			continue
		}
		for _, sample := range p.Sample {
			for _, size := range sample.NumLabel["bytes"] {
				if l.Most == 0 || size < l.Least {
					l.Least = size
				}
				l.Most = max(l.Most, size)
			}
			for key, values := range sample.Label {
				for _, value := range values {
					if name := key + "\x00" + value; !seen[name] {
						seen[name] = true
						l.Texts[key] = append(l.Texts[key], value)
					}
				}
			}
		}
	}
	for _, values := range l.Texts {
		slices.Sort(values)
	}
	return l
}

// labelFilter selects rows by block size and by text labels.
type labelFilter struct {
	from, to int64               // bytes; to = 0: no limit
	texts    map[string][]string // for each label, the accepted values
	thread   *regexp.Regexp      // nil: any
}

// newLabelFilter reads size_from= and size_to= (bytes), thread= (a pattern for names, or an id), and labels=, a query
// string of labels: "lifetime=alive&pool=cache".
func newLabelFilter(q url.Values) (f labelFilter, err error) {
	if f.from, err = number(q, "size_from"); err == nil {
		f.to, err = number(q, "size_to")
	}
	switch {
	case err != nil:
		return f, err
	case f.from < 0 || f.to < 0:
		return f, badRequest("size_from=%d, size_to=%d: expected sizes of blocks in bytes", f.from, f.to)
	case f.to > 0 && f.from > f.to:
		return f, badRequest("size_from=%d is more than size_to=%d", f.from, f.to)
	}
	if f.texts, err = url.ParseQuery(q.Get("labels")); err != nil {
		return f, badRequest("labels=%s: expected such as lifetime=alive", q.Get("labels"))
	}
	f.thread, err = pattern(q, "thread", "a thread's id, or a regular expression")
	return f, err
}

// pattern reads a regular expression. It returns nil if the parameter is absent.
func pattern(q url.Values, name, expected string) (*regexp.Regexp, error) {
	text := q.Get(name)
	if text == "" {
		return nil, nil
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, badRequest("%s=%s: expected %s: %s", name, text, expected, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return compiled, nil
}

func (f labelFilter) isAll() bool {
	return f.from == 0 && f.to == 0 && len(f.texts) == 0 && f.thread == nil
}

// key is equal for filters that select the same rows.
func (f labelFilter) key() string {
	thread := ""
	if f.thread != nil {
		thread = f.thread.String()
	}
	return fmt.Sprintf("%d %d %q %q", f.from, f.to, f.texts, thread) // maps are printed in key order
}

func (f labelFilter) passes(sample *profile.Sample) bool {
	if f.from > 0 || f.to > 0 {
		fits := func(size int64) bool { return size >= f.from && (f.to == 0 || size <= f.to) }
		if !slices.ContainsFunc(sample.NumLabel["bytes"], fits) {
			return false
		}
	}
	if f.thread != nil && !report.IsOfThread(sample, f.thread) {
		return false
	}
	for key, wanted := range f.texts {
		if !slices.ContainsFunc(sample.Label[key], func(value string) bool { return slices.Contains(wanted, value) }) {
			return false
		}
	}
	return true
}

// apply does not modify p.
func (f labelFilter) apply(p *profile.Profile) *profile.Profile {
	if p == nil || f.isAll() {
		return p
	}
	chosen := withoutSamples(p)
	for _, sample := range p.Sample {
		if f.passes(sample) {
			chosen.Sample = append(chosen.Sample, sample)
		}
	}
	return chosen
}

// withoutSamples returns a profile without samples that shares everything else with p.
func withoutSamples(p *profile.Profile) *profile.Profile {
	return &profile.Profile{
		SampleType: p.SampleType, DefaultSampleType: p.DefaultSampleType, Mapping: p.Mapping, Location: p.Location, Function: p.Function,
		Comments: p.Comments, DropFrames: p.DropFrames, KeepFrames: p.KeepFrames, TimeNanos: p.TimeNanos, DurationNanos: p.DurationNanos,
		PeriodType: p.PeriodType, Period: p.Period,
	}
}

// maxWindow is the maximum number of seconds that a request may wait for events.
const maxWindow = 60

// window takes a profile of the events in the next few seconds; 0: since the start.
func (s *Server) window(q url.Values, kind string) (*profile.Profile, error) {
	seconds, err := number(q, "seconds")
	switch {
	case err != nil:
		return nil, err
	case seconds < 0 || seconds > maxWindow:
		return nil, badRequest("seconds=%d: expected 1 to %d, or 0 for everything since the start", seconds, maxWindow)
	case seconds > 0 && !report.TakesWindow(kind):
		return nil, badRequest("seconds=%d: a %s profile cannot be limited to a time window", seconds, kind)
	}
	if seconds == 0 {
		return s.profileOfKind(kind)
	}
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	return s.kinds.get(fmt.Sprint(kind, " in ", seconds), func() (*profile.Profile, time.Duration, error) {
		before, tookBefore, err := s.process.Profile(kind)
		if err != nil {
			return nil, 0, err
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		after, tookAfter, err := s.process.Profile(kind)
		if err != nil {
			return nil, 0, err
		}
		taken, err := report.Window(before, after)
		if err != nil {
			err = problem{http.StatusBadGateway, fmt.Errorf("the two profiles are not compatible: %w", err)}
		}
		return taken, tookBefore + tookAfter, err
	})
}

// profileOfKind returns a profile of a kind. It may have been taken for another request a moment ago. For a process
// that has ended it returns the last one.
func (s *Server) profileOfKind(kind string) (*profile.Profile, error) {
	p, _, err := s.profileInWindow(kind)
	return p, err
}

// profileInWindow is taken. It also returns the time for which the process was busy; 0: it was not queried.
func (s *Server) profileInWindow(kind string) (taken *profile.Profile, elapsed time.Duration, err error) {
	taken, err = s.kinds.get(kind, func() (p *profile.Profile, _ time.Duration, err error) {
		if s.process == nil {
			p, err = s.history.storedProfile(kind)
			return p, maxInterval, err // it will not change
		}
		if p, elapsed, err = s.process.Profile(kind); err == nil {
			s.history.StoreProfile(kind, p)
		}
		return p, elapsed, err
	})
	return taken, elapsed, err
}
