package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"

	"github.com/google/pprof/profile"

	"seemalloc/tool/store"
)

// A history may be kept in a folder as well (tool/store): all that is added is written at once, and moments that have gone from
// memory, or were seen by an earlier tool, are read from there.

const (
	mostListed = 200 // moments of the folder in one list
	mostOlder  = 200 // moments of which is remembered who holds what
	noEnd      = math.MaxInt64
	noBound    = math.MaxInt32
)

// disk is a history's folder.
type disk struct {
	store *store.Store
	run   int // that is written to; 0: none
	shown int // the run that memory is of
	tell  func(error)

	mutex    sync.Mutex
	failures []failure // of the kinds whose last write failed, in the order in which they began to
	older    map[int]*Moment
}

// failure is why the last write of a kind failed: a large profile may have no room where a point has.
type failure struct {
	kind string
	err  error
}

// KeepIn lets all that comes be kept in the folder, as a run of a process. What the folder has of earlier times is in the history,
// its points thinned out. A write that fails is told, once until one of its kind succeeds.
func (h *History) KeepIn(s *store.Store, now int64, title string, pid int, tell func(error)) error {
	run, err := s.Begin(now, title, pid)
	if err != nil {
		return err
	}
	return h.load(&disk{store: s, run: run, shown: run, tell: tell, older: map[int]*Moment{}}, mostPoints/2)
}

// Reopen fills the history with what a folder has: the points of all its time, the moments of its last run. It returns that run.
func (h *History) Reopen(s *store.Store) (*store.Run, error) {
	run, err := s.LastRun()
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fmt.Errorf("%s: nothing has been written to it yet", s.Dir())
	}
	d := &disk{store: s, shown: run.ID, older: map[int]*Moment{}}
	if err := h.load(d, mostPoints); err != nil {
		return nil, err
	}
	for _, m := range s.Moments(run.ID, 0, noEnd, mostMoments) {
		h.moments = append(h.moments, d.moment(h, m))
	}
	if len(h.moments) == 0 && len(h.points) == 0 {
		return nil, fmt.Errorf("%s: nothing has been written to it yet", s.Dir())
	}
	return run, nil
}

func (h *History) load(d *disk, most int) error {
	points, err := d.points(0, noEnd, most)
	if err != nil {
		return err
	}
	h.disk, h.points, h.next = d, points, d.store.LastID()
	return nil
}

func (d *disk) points(from, until int64, most int) ([]Point, error) {
	rows, err := d.store.Points(from, until, most)
	if err != nil {
		return nil, err
	}
	points := make([]Point, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &points[i]); err != nil {
			return nil, fmt.Errorf("%s: a point in it is damaged: %w", d.store.Dir(), err)
		}
	}
	return points, nil
}

// loader reads a moment's profile.
func (d *disk) loader(id int) func() (*profile.Profile, error) {
	return func() (*profile.Profile, error) {
		data, err := d.store.Profile(id)
		if err != nil {
			return nil, problem{http.StatusNotFound, err}
		}
		p, err := profile.ParseData(data)
		if err != nil {
			return nil, fmt.Errorf("%s: profile %d in it is damaged: %w", d.store.Dir(), id, err)
		}
		return p, nil
	}
}

// moment is one of the folder; its profile is read when it is asked for.
func (d *disk) moment(h *History, m store.Moment) *Moment {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if known := d.older[m.ID]; known != nil {
		return known
	}
	if len(d.older) >= mostOlder {
		clear(d.older)
	}
	load := d.loader(m.ID)
	one := &Moment{ID: m.ID, Time: m.Time, InUse: m.InUse, Asked: m.Asked, load: load}
	one.held = sync.OnceValues(func() (map[stack]int64, error) {
		p, err := load()
		if err != nil {
			return nil, err
		}
		return inUseByStack(p)
	})
	d.older[m.ID] = one
	return one
}

// wrote keeps how a write went. What all kinds fail of is told once.
func (d *disk) wrote(kind string, err error) {
	d.mutex.Lock()
	of := func(f failure) bool { return f.kind == kind }
	tell := false
	if err == nil {
		d.failures = slices.DeleteFunc(d.failures, of)
	} else if i := slices.IndexFunc(d.failures, of); i >= 0 {
		d.failures[i].err = err
	} else {
		tell = !slices.ContainsFunc(d.failures, func(f failure) bool { return f.err.Error() == err.Error() })
		d.failures = append(d.failures, failure{kind, err})
	}
	d.mutex.Unlock()
	if tell {
		d.tell(err)
	}
}

func (d *disk) addPoint(p Point) {
	if d == nil || d.run == 0 {
		return
	}
	data, err := json.Marshal(p)
	if err == nil {
		err = d.store.AddPoint(p.Time, data)
	}
	d.wrote("points", err)
}

// encoded is the profile as it is kept, made before others see it.
func (d *disk) encoded(p *profile.Profile) []byte {
	if d == nil || d.run == 0 {
		return nil
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		d.wrote("moments", err)
		return nil
	}
	return data.Bytes()
}

// addMoment says whether the folder has it.
func (d *disk) addMoment(m *Moment, data []byte) bool {
	if data == nil {
		return false
	}
	err := d.store.AddMoment(store.Moment{ID: m.ID, Time: m.Time, InUse: m.InUse, Asked: m.Asked, Run: d.run}, data)
	d.wrote("moments", err)
	m.written = err == nil
	return m.written
}

// lighten takes the profiles that the folder has out of memory, but for the last one's: those of 20,000 stacks take 20 MB each. What
// the folder has let go is left out.
func (d *disk) lighten(h *History, moments []*Moment) []*Moment {
	last := moments[len(moments)-1]
	return slices.DeleteFunc(moments, func(m *Moment) bool {
		if m == last || !m.written {
			return false
		}
		if m.profile != nil {
			m.profile, m.load = nil, d.loader(m.ID)
		}
		_, found := d.store.Moment(m.ID)
		return !found
	})
}

// keep lets a moment stay that somebody looks at.
func (d *disk) keep(id int) {
	if d == nil || d.run == 0 {
		return
	}
	if written, err := d.store.Keep(id); written || err != nil {
		d.wrote("keep", err)
	}
}

// isWritten: what is seen goes to a folder.
func (h *History) isWritten() bool { return h.disk != nil && h.disk.run != 0 }

// Note keeps the last answer of a name, to be shown when the process is gone.
func (h *History) Note(name string, answer any) {
	if !h.isWritten() {
		return
	}
	data, err := json.Marshal(answer)
	if err == nil {
		err = h.disk.store.Note(name, data)
	}
	h.disk.wrote("note "+name, err)
}

// Noted is the last answer of a name.
func (h *History) Noted(name string) (any, error) {
	if h.disk == nil {
		return nil, badRequest("this shows saved profiles: there is no process to ask")
	}
	data, err := h.disk.store.Noted(name)
	if data == nil && err == nil {
		err = problem{http.StatusNotFound, fmt.Errorf("%s: nobody has asked for it while the process was watched", name)}
	}
	return json.RawMessage(data), err
}

// Failure says why something is not written to the folder just now: the one that has lasted longest.
func (h *History) Failure() error {
	if h.disk == nil {
		return nil
	}
	h.disk.mutex.Lock()
	defer h.disk.mutex.Unlock()
	if len(h.disk.failures) == 0 {
		return nil
	}
	return h.disk.failures[0].err
}

// Between returns the points of a time, from the folder where there is one.
func (h *History) Between(from, until int64) ([]Point, error) {
	if h.disk != nil {
		return h.disk.points(from, until, mostPoints)
	}
	points := h.Since(from - 1)
	return slices.DeleteFunc(points, func(p Point) bool { return p.Time > until }), nil
}

// Listed returns at least the moments in memory of a time, and, spread over it, so many of the folder's.
func (h *History) Listed(from, until int64, most int) []Moment { return h.listed(0, from, until, most) }

// ListedOfOne returns those of the process that was watched last in that time: what another one held says nothing of its growth.
func (h *History) ListedOfOne(from, until int64, most int) []Moment {
	run := 0
	if h.disk != nil {
		for _, m := range h.disk.store.Moments(0, from, until, noBound) {
			run = max(run, m.Run)
		}
	}
	return h.listed(run, from, until, most)
}

// listed is of a run; 0: of any.
func (h *History) listed(run int, from, until int64, most int) []Moment {
	all := slices.DeleteFunc(h.Moments(), func(m Moment) bool { return m.Time < from || m.Time > until })
	if h.disk == nil {
		return all
	}
	if run != 0 && run != h.disk.shown {
		all = nil
	}
	known := map[int]bool{}
	for _, m := range all {
		known[m.ID] = true
	}
	for _, m := range h.disk.store.Moments(run, from, until, most) {
		if !known[m.ID] {
			all = append(all, *h.disk.moment(h, m))
		}
	}
	slices.SortFunc(all, func(a, b Moment) int { return a.ID - b.ID })
	return all
}

// older finds a moment that is not in memory.
func (h *History) older(id int) (Moment, bool) {
	if h.disk == nil {
		return Moment{}, false
	}
	m, found := h.disk.store.Moment(id)
	if !found {
		return Moment{}, false
	}
	return *h.disk.moment(h, m), true
}

// Profile is the moment's.
func (m *Moment) Profile() (*profile.Profile, error) {
	if m.profile != nil {
		return m.profile, nil
	}
	if m.load == nil {
		return nil, errors.New("a moment without a profile")
	}
	return m.load()
}

// storedState tells the page of the folder.
type storedState struct {
	Dir     string `json:"dir"`
	Problem string `json:"problem,omitempty"` // why it is not written to just now
	Map     bool   `json:"map,omitempty"`     // it has a map
}

func (h *History) storedState() *storedState {
	if h.disk == nil {
		return nil
	}
	s := &storedState{Dir: h.disk.store.Dir(), Map: h.hasNote(keptMap)}
	if err := h.Failure(); err != nil {
		s.Problem = err.Error()
	}
	return s
}
