package web

import (
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/growth"
)

// Point holds the figures of one moment: present bytes, and counts since the start. Rates are computed from two points.
type Point struct {
	Time          int64 `json:"t"` // ms since 1970
	RSS           int64 `json:"rss"`
	Live          int64 `json:"live"`
	Cached        int64 `json:"cached"`
	Fragmentation int64 `json:"frag"`
	Metadata      int64 `json:"meta"`
	Foreign       int64 `json:"other"`
	Dirty         int64 `json:"dirty"`
	ErrorBound    int64 `json:"unsure,omitempty"` // maximum error of each of Live, Cached, Fragmentation and Foreign
	LiveAllocated int64 `json:"handed"`           // exact live bytes, by allocated size
	Allocated     int64 `json:"allocated"`        // bytes allocated since the start, freed or not; all fields below are counts since the start too
	Faults        int64 `json:"faults"`
	Purged        int64 `json:"purged"`
	Refaults      int64 `json:"refaults"`
	KernelCalls   int64 `json:"calls"`
	KernelNS      int64 `json:"kernel_ns"`
	Refills       int64 `json:"refills"`
	RemoteFrees   int64 `json:"remote"`
	LockWaits     int64 `json:"lockwaits"`
	Threads       int64 `json:"threads"`
	Run           int   `json:"run,omitempty"` // in a folder with several processes: the run
}

// Moment is a stored heap profile. Any two can be compared.
type Moment struct {
	ID      int    `json:"id"`
	Time    int64  `json:"t"` // ms since 1970; 0: a file without a time
	Name    string `json:"name,omitempty"`
	InUse   int64  `json:"inuse"`
	Pinned  bool   `json:"asked"` // requested or viewed by the user: kept while others are deleted
	looked  int    // when it was last requested or viewed, as a value of the counter looks
	profile *profile.Profile
	load    func() (*profile.Profile, error) // used if profile is nil: reads the profile from the folder
	written bool                             // stored in the folder
	held    func() (growth.Moment, error)    // the rows for suspects, computed once
}

// The maximum numbers of points and moments in memory. A point takes 170 bytes, so 6,000 points take about 1 MB. A
// moment can take several MB.
const (
	maxPoints  = 6000
	maxMoments = 60
)

// History keeps points and moments of a process in limited memory. When there are too many, it thins out old ones: the
// last minutes are complete, and hours ago there are still some. A folder (stored.go) keeps more. Safe for concurrent
// use.
type History struct {
	mutex   sync.Mutex
	points  []Point
	moments []*Moment
	ahead   int64 // ms by which points are ahead of the clock after it was set back
	next    int
	looks   int
	disk    *disk // nil: in memory only; set before the history is shared
}

// Add adds a point. If the clock was set back, time continues from the last point, because the page requests points
// later than its last one.
func (h *History) Add(p Point) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if n := len(h.points); n > 0 {
		last := h.points[n-1].Time
		if p.Time > last {
			h.ahead = 0
		} else if p.Time+h.ahead <= last {
			h.ahead = last + interval.Milliseconds() - p.Time
		}
		p.Time += h.ahead
	}
	if h.disk != nil {
		p.Run = h.disk.run
	}
	h.points = append(h.points, p)
	if len(h.points) > maxPoints {
		h.points = thinOut(h.points)
	}
	h.disk.addPoint(p)
}

// thinOut removes every other point of the older half.
func thinOut(points []Point) []Point {
	half := len(points) / 2
	kept := points[:0]
	for i, p := range points {
		if i >= half || i%2 == 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// Since returns the points later than ms since 1970.
func (h *History) Since(ms int64) []Point {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	first, _ := slices.BinarySearchFunc(h.points, ms+1, func(p Point, ms int64) int { return int(p.Time - ms) })
	return append([]Point{}, h.points[first:]...)
}

// AddMoment adds a profile and returns its moment.
func (h *History) AddMoment(p *profile.Profile, inUse int64, asked bool) Moment {
	data := h.disk.encoded(p)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	m := h.enter(&Moment{Time: p.TimeNanos / int64(time.Millisecond), InUse: inUse, Pinned: asked, profile: p})
	if m.Time == 0 {
		m.Time = time.Now().UnixMilli()
	}
	if h.disk.addMoment(m, data) {
		h.moments = h.disk.releaseProfiles(h, h.moments)
	}
	if len(h.moments) > maxMoments {
		h.dropOne()
	}
	return *m
}

// AddFile adds a saved profile after the existing ones. There is no limit, because all given files are shown.
func (h *History) AddFile(name string, p *profile.Profile) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.enter(&Moment{Time: p.TimeNanos / int64(time.Millisecond), Name: name, InUse: inUse(p), Pinned: true, profile: p})
}

func (h *History) enter(m *Moment) *Moment {
	h.next++
	h.looks++
	m.ID, m.looked = h.next, h.looks
	m.held = sync.OnceValues(func() (growth.Moment, error) {
		h.mutex.Lock()
		one := *m // a copy, because the profile may be moved to the folder in the meantime
		h.mutex.Unlock()
		p, err := one.Profile()
		if err != nil {
			return growth.Moment{}, err
		}
		return growthRows(p)
	})
	h.moments = append(h.moments, m)
	return m
}

// dropOne removes the moment with the smallest distance between its neighbours, relative to its age: older
// moments become ever sparser. The first moment, the last one and those requested by the user are kept as long as there
// are others. After that the moment that has not been viewed for the longest time is removed.
func (h *History) dropOne() {
	now := h.moments[len(h.moments)-1].Time
	best, minimum, forgotten := -1, 0.0, 1
	for i := 1; i < len(h.moments)-1; i++ {
		m := h.moments[i]
		if m.Pinned {
			if m.looked < h.moments[forgotten].looked {
				forgotten = i
			}
			continue
		}
		gap := float64(h.moments[i+1].Time-h.moments[i-1].Time) / float64(now-m.Time+1000)
		if best < 0 || gap < minimum {
			best, minimum = i, gap
		}
	}
	if best < 0 {
		best = forgotten
	}
	h.moments = slices.Delete(h.moments, best, best+1)
}

// Moments lists the moments in memory, the oldest first.
func (h *History) Moments() []Moment {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	out := make([]Moment, len(h.moments))
	for i, m := range h.moments {
		out[i] = *m
	}
	return out
}

// Moment finds a moment by its id. 0 is the last one.
func (h *History) Moment(id int) (Moment, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := len(h.moments) - 1; i >= 0; i-- {
		if id == 0 || h.moments[i].ID == id {
			return *h.moments[i], true
		}
	}
	return h.older(id)
}

// Keep is Moment for a moment that a user views and may view again: it is kept while others are removed.
func (h *History) Keep(id int) (Moment, bool) {
	h.disk.keep(id)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, m := range h.moments {
		if m.ID == id {
			h.looks++
			m.Pinned, m.looked = true, h.looks
			return *m, true
		}
	}
	return h.older(id)
}
