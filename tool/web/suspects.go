package web

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Suspect is a stack with growing memory, its growth per second and the certainty of the growth.
type Suspect struct {
	Stack []string `json:"stack"`       // functions, innermost first
	Inner int      `json:"inner"`       // number of innermost functions that belong to a standard library: the next function holds the memory
	PerS  float64  `json:"bytes_per_s"` // the median of the slopes between all pairs of moments (Theil-Sen estimator)
	// Certainty is the probability, 0 to 1, that memory without a trend does not produce such a sequence of values
	// (Mann-Kendall test, normal approximation, one-sided).
	Certainty float64 `json:"sure"`
	Now       int64   `json:"now"`
	Values    []int64 `json:"values"` // live bytes at each moment
	Times     []int64 `json:"times"`  // times of the moments, in ms since 1970

	left bool // filtered out
}

// minMoments is the minimum number of moments for a significant result.
const minMoments = 4

// GrowthSuspects ranks stacks by the growth rate of their memory over the moments. It returns no suspects if the time
// of a moment is unknown.
func GrowthSuspects(moments []Moment, limit int) ([]Suspect, error) {
	return suspectsOf(moments, limit, stackFilter{}, Moment.heldByStack)
}

// suspectsOf ranks the stacks that pass the filter. heldOf returns the live bytes of a moment by stack.
func suspectsOf(moments []Moment, limit int, filter stackFilter, heldOf func(Moment) (map[stack]int64, error)) ([]Suspect, error) {
	if len(moments) < minMoments || slices.ContainsFunc(moments, func(m Moment) bool { return m.Time == 0 }) {
		return []Suspect{}, nil
	}
	times, since1970 := make([]float64, len(moments)), make([]int64, len(moments))
	found := map[stack]*Suspect{}
	for i, m := range moments {
		times[i], since1970[i] = float64(m.Time)/1000, m.Time
		held, err := heldOf(m)
		if err != nil {
			return nil, err
		}
		for stack, bytes := range held {
			s := found[stack]
			if s == nil {
				names := stack.names()
				s = &Suspect{Stack: names, Inner: report.CountLibraryFrames(names), Values: make([]int64, len(moments)), Times: since1970}
				found[stack] = s
				s.left = !filter.passes(names)
			}
			s.Values[i] = bytes
		}
	}
	out := []Suspect{}
	for _, s := range found {
		if s.left {
			continue
		}
		s.PerS = slope(times, s.Values)
		s.Certainty = certainty(s.Values)
		s.Now = s.Values[len(s.Values)-1]
		if s.PerS > 0 {
			out = append(out, *s)
		}
	}
	// A fast growth that may be random comes after a slower one that is certain.
	slices.SortFunc(out, func(a, b Suspect) int { return descending(a.PerS*weight(a.Certainty), b.PerS*weight(b.Certainty)) })
	return out[:min(len(out), limit)], nil
}

// stack holds the names of a stack's functions, innermost first. Equal stacks of different profiles have the same
// value. The names are released with the last reference.
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

func (m Moment) heldByStack() (map[stack]int64, error) { return m.held() }

// filteredLiveBytes caches the live bytes of selected rows and modules for each moment, like Moment does for all rows:
// a page repeats its request, and only the latest moment is new. Safe for concurrent use.
type filteredLiveBytes struct {
	mutex  sync.Mutex
	choice string // the last selection; results for other selections are dropped
	held   map[int]map[stack]int64
}

// suspects ranks the stacks that pass the first filter, by the rows that pass the second.
func (c *filteredLiveBytes) suspects(moments []Moment, limit int, filter stackFilter, rows labelFilter) ([]Suspect, error) {
	if filter.module == "" && rows.isAll() {
		return suspectsOf(moments, limit, filter, Moment.heldByStack)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	known := map[int]map[stack]int64{} // of these moments only
	choice := filter.module + " " + rows.key()
	if c.choice == choice {
		known = c.held
	}
	c.choice, c.held = choice, map[int]map[stack]int64{}
	return suspectsOf(moments, limit, filter, func(m Moment) (map[stack]int64, error) {
		held, ok := known[m.ID]
		if !ok {
			p, err := m.Profile()
			if err == nil {
				p, err = withoutAllocatorFrames(rows.apply(p))
			}
			if err != nil {
				return nil, err
			}
			if held, err = heldIn(filter.ofModule(p)); err != nil {
				return nil, err
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

// inUseByStack returns the live bytes of each stack in a profile.
func inUseByStack(p *profile.Profile) (map[stack]int64, error) {
	p, err := withoutAllocatorFrames(p)
	if err != nil {
		return nil, err
	}
	return heldIn(p)
}

func heldIn(p *profile.Profile) (map[stack]int64, error) {
	index, err := report.SampleIndex(p, "inuse", "bytes")
	if err != nil {
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

// certainty computes the Mann-Kendall test with its correction for ties.
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

// standardError returns the error of the total for a profile from which frames have been removed.
func standardError(p *profile.Profile, index int) stdError {
	return stdError(math.Sqrt(report.Variance(p, index)))
}
