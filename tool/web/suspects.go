package web

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/growth"
	"seemalloc/tool/report"
)

// Suspect is a cause of growth, as `seemalloc growth` finds it (tool/growth).
type Suspect struct {
	Stack []string `json:"stack"` // the function that owns the memory, with its callers after it
	Inner int      `json:"inner"` // number of innermost functions that belong to a standard library: none
	PerS  float64  `json:"bytes_per_s"`
	Error float64  `json:"standard_error"` // of PerS
	// Certainty is the confidence that it grows, 0 to 1.
	Certainty float64      `json:"sure"`
	Class     growth.Class `json:"class"`
	// Steady is false if there are too few moments to distinguish steady growth from a jump.
	Steady bool    `json:"steady"`
	Now    int64   `json:"now"`
	Values []int64 `json:"values"` // live bytes at each moment
	Times  []int64 `json:"times"`  // times of the moments, in ms since 1970
}

// GrowthSuspects returns the growth over the moments, the fastest first. It returns no suspects if the time of a moment
// is unknown.
func GrowthSuspects(moments []Moment, limit int) ([]Suspect, error) {
	return suspectsOf(moments, growth.MinMoments, limit, stackFilter{}, Moment.rows)
}

// suspectsOf examines the stacks that pass the filter. rowsOf returns the rows of a moment. It returns no suspects if
// there are fewer moments than least.
func suspectsOf(moments []Moment, least, limit int, filter stackFilter, rowsOf func(Moment) (growth.Moment, error)) ([]Suspect, error) {
	result, times, err := findGrowth(moments, least, filter, rowsOf)
	if err != nil || result == nil {
		return []Suspect{}, err
	}
	out := []Suspect{}
	for _, row := range result.Rows[:min(len(result.Rows), limit)] {
		s := Suspect{Stack: names(row.Stack), PerS: row.PerS, Error: row.Error, Certainty: row.Confidence, Class: row.Class, Steady: result.Steady, Now: int64(row.Live), Times: times}
		for _, value := range row.Values {
			s.Values = append(s.Values, int64(math.Round(value)))
		}
		out = append(out, s)
	}
	return out, nil
}

// recentGrowth returns the growth over the last two minutes, or nil if there are too few moments.
func (h *History) recentGrowth() (*growth.Result, error) {
	const lasts = 120_000 // ms
	moments := h.Moments()
	if len(moments) == 0 {
		return nil, nil
	}
	from := moments[len(moments)-1].Time - lasts
	result, _, err := findGrowth(slices.DeleteFunc(moments, func(m Moment) bool { return m.Time < from }), growth.MinMoments, stackFilter{}, Moment.rows)
	return result, err
}

// findGrowth returns the growth over the moments and their times, or nil if there are too few moments, or one without a
// time.
func findGrowth(moments []Moment, least int, filter stackFilter, rowsOf func(Moment) (growth.Moment, error)) (*growth.Result, []int64, error) {
	if slices.ContainsFunc(moments, func(m Moment) bool { return m.Time == 0 }) {
		return nil, nil, nil
	}
	times, all, err := inOrder(moments, rowsOf)
	if err != nil || len(all) < least {
		return nil, nil, err
	}
	result, err := growth.Find(all, growth.Options{
		Frames: growth.NamedFrames,
		Keep:   func(_ growth.Key, frames []growth.Frame) bool { return filter.passes(names(frames)) },
	})
	return result, times, err
}

// inOrder returns the rows of the moments by time, one for each time.
func inOrder(moments []Moment, rowsOf func(Moment) (growth.Moment, error)) (times []int64, all []growth.Moment, err error) {
	moments = slices.Clone(moments)
	slices.SortStableFunc(moments, func(a, b Moment) int { return cmp.Compare(a.Time, b.Time) })
	for _, m := range moments {
		if len(times) > 0 && times[len(times)-1] == m.Time {
			continue
		}
		rows, err := rowsOf(m)
		if err != nil {
			return nil, nil, err
		}
		rows.TimeNS = m.Time * int64(time.Millisecond)
		times, all = append(times, m.Time), append(all, rows)
	}
	return times, all, nil
}

func names(frames []growth.Frame) []string {
	list := make([]string, len(frames))
	for i, frame := range frames {
		list[i] = frame.Name
	}
	return list
}

func (m Moment) rows() (growth.Moment, error) { return m.held() }

// filteredLiveBytes caches the selected rows and modules for each moment, like Moment does for all rows:
// a page repeats its request, and only the latest moment is new. Safe for concurrent use.
type filteredLiveBytes struct {
	mutex  sync.Mutex
	choice string // the last selection; results for other selections are dropped
	held   map[int]growth.Moment
}

// suspects ranks the stacks that pass the first filter, by the rows that pass the second.
func (c *filteredLiveBytes) suspects(moments []Moment, least, limit int, filter stackFilter, rows labelFilter) ([]Suspect, error) {
	if filter.module == "" && rows.isAll() {
		return suspectsOf(moments, least, limit, filter, Moment.rows)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	known := map[int]growth.Moment{} // of these moments only
	choice := filter.module + " " + rows.key()
	if c.choice == choice {
		known = c.held
	}
	c.choice, c.held = choice, map[int]growth.Moment{}
	return suspectsOf(moments, least, limit, filter, func(m Moment) (growth.Moment, error) {
		held, ok := known[m.ID]
		if !ok {
			p, err := m.Profile()
			if err == nil {
				p, err = withoutAllocatorFrames(rows.apply(p))
			}
			if err != nil {
				return held, err
			}
			if held, err = growth.NewMoment(filter.ofModule(p), nil, growth.NamedStack); err != nil {
				return held, err
			}
		}
		c.held[m.ID] = held
		return held, nil
	})
}

// threadsKind is the kind of heap profile with a thread in each sample.
const threadsKind = "threads"

// byThread keeps heap profiles with threads. They are taken when a page requests growth by thread, because the regular
// profiles have no threads. Safe for concurrent use.
type byThread struct {
	mutex   sync.Mutex
	last    *profile.Profile
	history History
}

// add adds a profile that has not been added yet.
func (b *byThread) add(p *profile.Profile) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if p != b.last {
		b.last = p
		addToHistory(&b.history, p, false)
	}
}

// names returns the threads of the last profile.
func (b *byThread) names() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.last == nil {
		return []string{}
	}
	return append([]string{}, report.ThreadNames(b.last)...)
}

// historyByThread returns the history for suspects by thread.
func (s *Server) historyByThread(pattern string) (*History, error) {
	if s.process != nil {
		p, err := s.profileOfKind(threadsKind)
		if err == nil {
			s.byThread.add(p)
		} else if _, ok := s.byThread.history.Moment(0); !ok { // for a process that has ended, the profiles taken before remain
			return nil, err
		}
		return &s.byThread.history, nil
	}
	if m, ok := s.history.Moment(0); ok {
		p, err := m.Profile()
		if err != nil {
			return nil, err
		}
		if !report.HasThreads(p) {
			return nil, badRequest("thread=%s: the saved profiles have no threads; those of the kind %s do", pattern, threadsKind)
		}
	}
	return s.history, nil
}

// withoutAllocatorFrames returns p without the allocator's own frames.
func withoutAllocatorFrames(p *profile.Profile) (*profile.Profile, error) {
	p = p.Copy() // p may be in use by others
	return p, p.RemoveUninteresting()
}

// growthRows returns the rows of a profile.
func growthRows(p *profile.Profile) (growth.Moment, error) {
	p, err := withoutAllocatorFrames(p)
	if err != nil {
		return growth.Moment{}, err
	}
	return growth.NewMoment(p, nil, growth.NamedStack)
}

// standardError returns the error of the total for a profile from which frames have been removed.
func standardError(p *profile.Profile, index int) stdError {
	return stdError(math.Sqrt(report.Variance(p, index)))
}
