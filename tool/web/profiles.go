package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/google/pprof/profile"

	"seemalloc/tool/growth"
	"seemalloc/tool/report"
)

func (s *Server) series(q url.Values) (any, error) {
	from, until, err := window(q)
	if err != nil {
		return nil, err
	}
	if q.Has("from") || q.Has("until") {
		return s.history.Between(from, until)
	}
	since, err := number(q, "since")
	return s.history.Since(since), err
}

// window reads from and until in ms since 1970. An absent parameter is no limit.
func window(q url.Values) (from, until int64, err error) {
	if from, err = number(q, "from"); err != nil {
		return 0, 0, err
	}
	if until, err = number(q, "until"); until == 0 {
		until = noEnd
	}
	return from, until, err
}

func (s *Server) moments(q url.Values) (any, error) {
	from, until, err := window(q)
	return s.history.Listed(from, until, maxListed), err
}

func (s *Server) takeMoment(*http.Request) (any, error) {
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	return s.watcher.Take()
}

// moment returns the profile named by a parameter. 0 is the last one.
func (s *Server) moment(q url.Values, name string) (*profile.Profile, error) {
	id, err := number(q, name)
	if err != nil {
		return nil, err
	}
	look := s.history.Keep
	if id == 0 {
		look = s.history.Moment
	}
	m, ok := look(int(id))
	if !ok && id == 0 {
		if err := s.noProfileReason(); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, problem{http.StatusNotFound, fmt.Errorf("%s=%d: no such profile", name, id)}
	}
	return m.Profile()
}

// noProfileReason returns the reason why the process provides no profiles.
func (s *Server) noProfileReason() error {
	if s.watcher == nil {
		return nil
	}
	return s.watcher.Refused()
}

// chosen returns the heap profile of a moment, or takes a profile of another kind.
func (s *Server) chosen(q url.Values) (*profile.Profile, error) {
	kind := q.Get("kind")
	if kind == "" || kind == "heap" {
		return s.moment(q, "at")
	}
	if !s.isProcess() {
		return nil, s.needProcess()
	}
	if id, err := number(q, "at"); err != nil || id != 0 || q.Has("base") {
		return nil, badRequest("kind=%q is taken on request: at and base need heap profiles, which are stored", kind)
	}
	return s.window(q, kind)
}

// Prepare starts to compute the page's first answer: for a large profile that takes as long as the start of the
// browser. The answer is cached, so Prepare is for saved profiles, which do not change. done is called when the answer
// is ready.
func (s *Server) Prepare(done func()) {
	s.first = sync.OnceValues(func() (any, error) { return s.profileOf(url.Values{}) })
	go func() {
		_, _ = s.first()
		done()
	}()
}

// profile answers with the selected profile, compared with another moment if requested.
func (s *Server) profile(q url.Values) (any, error) {
	if s.first != nil && (len(q) == 0 || q.Encode() == "at=0&kind=heap") {
		return s.first()
	}
	return s.profileOf(q)
}

func (s *Server) profileOf(q url.Values) (any, error) {
	p, base, err := s.compared(q)
	if err != nil {
		return nil, err
	}
	return s.stacks(q, p, base)
}

// compared returns the selected profile, and the moment to compare it with, if any.
func (s *Server) compared(q url.Values) (p, base *profile.Profile, err error) {
	if p, err = s.chosen(q); err != nil {
		return nil, nil, err
	}
	if q.Has("base") {
		if base, err = s.moment(q, "base"); err != nil {
			return nil, nil, err
		}
	}
	return p, base, nil
}

// stacks returns the stacks of the requested rows. It permits the page to read the source files that they name.
func (s *Server) stacks(q url.Values, p, base *profile.Profile) (any, error) {
	filter, err := newLabelFilter(q)
	if err != nil {
		return nil, err
	}
	stacks, err := NewStacks(filter.apply(p), filter.apply(base))
	if err != nil {
		return nil, err
	}
	stacks.Labels = labelsOf(p, base)
	s.sources.allow(stacks.Frames)
	return stacks, nil
}

// suspects returns the suspects of a time range, or of the last few seconds before the last profile. Without either it
// uses all moments in memory.
func (s *Server) suspects(q url.Values) (any, error) {
	const limit = 30
	last, err := number(q, "last")
	if err != nil {
		return nil, err
	}
	filter, rows, err := newFilters(q)
	if err != nil {
		return nil, err
	}
	history := s.history
	if rows.thread != nil {
		if history, err = s.historyByThread(rows.thread.String()); err != nil {
			return nil, err
		}
	}
	all, err := momentsIn(history, q)
	if err != nil {
		return nil, err
	}
	var window []Moment
	for _, m := range all {
		if last == 0 || m.Time >= all[len(all)-1].Time-1000*last {
			window = append(window, m)
		}
	}
	if len(all) == 0 {
		if err := s.noProfileReason(); err != nil {
			return nil, err
		}
	}
	least := growth.MinMoments
	if s.process == nil { // what grew between two files
		least = 2
	}
	return s.filteredLiveBytes.suspects(window, least, limit, filter, rows)
}

// momentsIn returns the moments of a time range. Without one it returns all moments in memory.
func momentsIn(h *History, q url.Values) ([]Moment, error) {
	from, until, err := window(q)
	if err != nil {
		return nil, err
	}
	if q.Has("from") || q.Has("until") {
		return h.ListedOfOne(from, until, maxMoments), nil
	}
	return h.Moments(), nil
}

// choices lists the filter values for suspects.
type choices struct {
	Modules []string `json:"modules"`
	// Threads lists the known thread names. It is nil if no profile has threads.
	Threads []string `json:"threads"`
}

func (s *Server) choices(url.Values) (any, error) {
	answer := choices{Modules: []string{}}
	m, ok := s.history.Moment(0)
	if !ok {
		return answer, s.noProfileReason()
	}
	p, err := m.Profile()
	if err != nil {
		return nil, err
	}
	if p, err = withoutAllocatorFrames(p); err != nil {
		return nil, err
	}
	answer.Modules = append(answer.Modules, modulesOf(p)...)
	if s.process != nil && slices.ContainsFunc(s.options.Kinds, func(kind Kind) bool { return kind.Name == threadsKind }) {
		answer.Threads = s.byThread.names()
	} else if len(p.Sample) > 0 && report.HasThreads(p) {
		answer.Threads = report.ThreadNames(p)
	}
	return answer, nil
}
