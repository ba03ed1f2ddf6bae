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

	"seemalloc/tool/attach"
	"seemalloc/tool/growth"
	"seemalloc/tool/store"
)

// A history may also be stored in a folder (tool/store): all additions are written immediately. Moments that have been
// removed from memory, or were recorded by an earlier tool, are read from there.

const (
	maxListed = 200 // maximum number of the folder's moments in one list
	maxOlder  = 200 // maximum number of moments with cached values by stack
	noEnd     = math.MaxInt64
	noBound   = math.MaxInt32
)

// disk is the folder of a history.
type disk struct {
	store  *store.Store
	run    int // that is being written; 0: none
	shown  int // the run in memory
	notify func(error)

	mutex    sync.Mutex
	failures []failure // one for each kind with a failed last write, the oldest failure first
	older    map[int]*Moment
}

// failure is the reason why the last write of a kind failed. Failures are recorded by kind, because a point may fit
// into the folder when a large profile does not.
type failure struct {
	kind string
	err  error
}

// StoreIn stores all further additions in the folder, as a run of a process. It loads the folder's earlier data into
// the history and thins out its points. A failed write is reported once, until a write of the same kind succeeds.
func (h *History) StoreIn(s *store.Store, now int64, title string, pid int, notify func(error)) error {
	run, err := s.Begin(now, title, pid)
	if err != nil {
		return err
	}
	return h.load(&disk{store: s, run: run, shown: run, notify: notify, older: map[int]*Moment{}}, maxPoints/2)
}

// Reopen fills the history from a folder: the points of its whole time, and the moments of its last run. It returns
// that run.
func (h *History) Reopen(s *store.Store) (*store.Run, error) {
	run, err := s.LastRun()
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fmt.Errorf("%s: nothing has been written to it yet", s.Dir())
	}
	d := &disk{store: s, shown: run.ID, older: map[int]*Moment{}}
	if err := h.load(d, maxPoints); err != nil {
		return nil, err
	}
	for _, m := range s.Moments(run.ID, 0, noEnd, maxMoments) {
		h.moments = append(h.moments, d.moment(h, m))
	}
	if len(h.moments) == 0 && len(h.points) == 0 {
		return nil, fmt.Errorf("%s: nothing has been written to it yet", s.Dir())
	}
	return run, nil
}

func (h *History) load(d *disk, limit int) error {
	points, err := d.points(0, noEnd, limit)
	if err != nil {
		return err
	}
	h.disk, h.points, h.next = d, points, d.store.LastID()
	return nil
}

func (d *disk) points(from, until int64, limit int) ([]Point, error) {
	rows, err := d.store.Points(from, until, limit)
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

// loader returns a function that reads the profile of a moment.
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

// moment returns a moment of the folder. Its profile is read on demand.
func (d *disk) moment(h *History, m store.Moment) *Moment {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if known := d.older[m.ID]; known != nil {
		return known
	}
	if len(d.older) >= maxOlder {
		clear(d.older)
	}
	load := d.loader(m.ID)
	one := &Moment{ID: m.ID, Time: m.Time, InUse: m.InUse, Pinned: m.Pinned, load: load}
	one.held = sync.OnceValues(func() (growth.Moment, error) {
		p, err := load()
		if err != nil {
			return growth.Moment{}, err
		}
		return growthRows(p)
	})
	d.older[m.ID] = one
	return one
}

// setWriteResult records the result of a write. An error that several kinds have in common is reported once.
func (d *disk) setWriteResult(kind string, err error) {
	d.mutex.Lock()
	of := func(f failure) bool { return f.kind == kind }
	notify := false
	if err == nil {
		d.failures = slices.DeleteFunc(d.failures, of)
	} else if i := slices.IndexFunc(d.failures, of); i >= 0 {
		d.failures[i].err = err
	} else {
		notify = !slices.ContainsFunc(d.failures, func(f failure) bool { return f.err.Error() == err.Error() })
		d.failures = append(d.failures, failure{kind, err})
	}
	d.mutex.Unlock()
	if notify {
		d.notify(err)
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
	d.setWriteResult("points", err)
}

// encoded returns the encoded profile. It must be called before the profile is shared.
func (d *disk) encoded(p *profile.Profile) []byte {
	if d == nil || d.run == 0 {
		return nil
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		d.setWriteResult("moments", err)
		return nil
	}
	return data.Bytes()
}

// addMoment reports whether the folder has stored the moment.
func (d *disk) addMoment(m *Moment, data []byte) bool {
	if data == nil {
		return false
	}
	err := d.store.AddMoment(store.Moment{ID: m.ID, Time: m.Time, InUse: m.InUse, Pinned: m.Pinned, Run: d.run}, data)
	d.setWriteResult("moments", err)
	m.written = err == nil
	return m.written
}

// releaseProfiles releases the profiles in memory that are in the folder, except the last one: a profile with 20,000
// stacks takes 20 MB. It drops moments that the folder has deleted.
func (d *disk) releaseProfiles(h *History, moments []*Moment) []*Moment {
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

// keep marks a moment that the user views, so that it is not deleted.
func (d *disk) keep(id int) {
	if d == nil || d.run == 0 {
		return
	}
	if written, err := d.store.Pin(id); written || err != nil {
		d.setWriteResult("keep", err)
	}
}

// isWritten reports whether data is written to a folder.
func (h *History) isWritten() bool { return h.disk != nil && h.disk.run != 0 }

// StoreAnswer stores the last answer with this name, which is shown after the process has ended.
func (h *History) StoreAnswer(name string, answer any) {
	if !h.isWritten() {
		return
	}
	data, err := json.Marshal(answer)
	if err == nil {
		err = h.disk.store.StoreAnswer(name, data)
	}
	h.disk.setWriteResult("note "+name, err)
}

// LastAnswer returns the stored answer with this name.
func (h *History) LastAnswer(name string) (any, error) {
	if h.disk == nil {
		return nil, badRequest("saved profiles are shown: there is no process to query")
	}
	data, err := h.disk.store.LastAnswer(name)
	if data == nil && err == nil {
		err = problem{http.StatusNotFound, fmt.Errorf("%s: it was not requested while the process was observed", name)}
	}
	if name == "stats" {
		data = attach.CurrentNames(data) // it may be stored by a version before
	}
	return json.RawMessage(data), err
}

// Failure returns why data is not being written to the folder at present: the longest-lasting failure.
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

// Between returns the points of a time range, from the folder if there is one.
func (h *History) Between(from, until int64) ([]Point, error) {
	if h.disk != nil {
		return h.disk.points(from, until, maxPoints)
	}
	points := h.Since(from - 1)
	return slices.DeleteFunc(points, func(p Point) bool { return p.Time > until }), nil
}

// Listed returns the moments in memory that are in the time range and, spread over the range, at most `most` of the
// folder's moments.
func (h *History) Listed(from, until int64, limit int) []Moment {
	return h.listed(0, from, until, limit)
}

// ListedOfOne returns the moments of the process that was observed last in this time, because the memory of another
// process says nothing about its growth.
func (h *History) ListedOfOne(from, until int64, limit int) []Moment {
	run := 0
	if h.disk != nil {
		for _, m := range h.disk.store.Moments(0, from, until, noBound) {
			run = max(run, m.Run)
		}
	}
	return h.listed(run, from, until, limit)
}

// listed returns the moments of a run; 0: of any run.
func (h *History) listed(run int, from, until int64, limit int) []Moment {
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
	for _, m := range h.disk.store.Moments(run, from, until, limit) {
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

// Profile returns the profile of the moment.
func (m *Moment) Profile() (*profile.Profile, error) {
	if m.profile != nil {
		return m.profile, nil
	}
	if m.load == nil {
		return nil, errors.New("a moment without a profile")
	}
	return m.load()
}

// storedState describes the folder to the page.
type storedState struct {
	Dir     string `json:"dir"`
	Problem string `json:"problem,omitempty"` // why it is not being written at present
	Map     bool   `json:"map,omitempty"`     // it has a map
	Doctor  bool   `json:"doctor,omitempty"`  // it has doctor's findings
}

func (h *History) storedState() *storedState {
	if h.disk == nil {
		return nil
	}
	s := &storedState{Dir: h.disk.store.Dir(), Map: h.hasNote(storedMapName), Doctor: h.hasNote("doctor")}
	if err := h.Failure(); err != nil {
		s.Problem = err.Error()
	}
	return s
}
