package web

import (
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// Point is one look at the process: bytes now, and counts since the start. Rates are made of two points.
type Point struct {
	Time          int64 `json:"t"` // ms since 1970
	RSS           int64 `json:"rss"`
	Live          int64 `json:"live"`
	Cached        int64 `json:"cached"`
	Fragmentation int64 `json:"frag"`
	Metadata      int64 `json:"meta"`
	NotOurs       int64 `json:"other"`
	Dirty         int64 `json:"dirty"`
	Unsure        int64 `json:"unsure,omitempty"` // by how much Live, Cached, Fragmentation and NotOurs may each be off
	LiveAllocated int64 `json:"handed"`           // exact bytes handed out, by allocated size
	Allocated     int64 `json:"allocated"`        // bytes since the start, as all below; freed or not
	Faults        int64 `json:"faults"`
	Purged        int64 `json:"purged"`
	Refaults      int64 `json:"refaults"`
	KernelCalls   int64 `json:"calls"`
	KernelNS      int64 `json:"kernel_ns"`
	Refills       int64 `json:"refills"`
	RemoteFrees   int64 `json:"remote"`
	LockWaits     int64 `json:"lockwaits"`
	Threads       int64 `json:"threads"`
	Run           int   `json:"run,omitempty"` // of a folder with several processes: which one
}

// Moment is a heap profile that was kept, for the diff of any two of them.
type Moment struct {
	ID      int    `json:"id"`
	Time    int64  `json:"t"` // ms since 1970; 0: a file that does not say
	Name    string `json:"name,omitempty"`
	InUse   int64  `json:"inuse"`
	Asked   bool   `json:"asked"` // somebody asked for it or looks at it: kept when others go
	looked  int    // when somebody did so last, in looks
	profile *profile.Profile
	load    func() (*profile.Profile, error) // instead of profile: it is in the folder
	written bool                             // the folder has it
	held    func() (map[stack]int64, error)  // bytes in use by stack; found out once
}

// What is kept at most. A point is 170 bytes, so 6,000 of them are below 1 MB; a moment may be some MB.
const (
	mostPoints  = 6000
	mostMoments = 60
)

// History keeps points and moments of a process in bounded memory: when there are too many, those far back are thinned
// out, so that the last minutes are there second by second and hours back are still there in steps. In a folder (stored.go) more
// is kept. Safe for concurrent use.
type History struct {
	mutex   sync.Mutex
	points  []Point
	moments []*Moment
	ahead   int64 // ms that points are later than the clock, which was set back
	next    int
	looks   int
	disk    *disk // nil: in memory only; set before others see it
}

// Add keeps a point. Where the clock was set back, time goes on from the last one: the page asks for what is later than that.
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
	if len(h.points) > mostPoints {
		h.points = thinned(h.points)
	}
	h.disk.addPoint(p)
}

// thinned drops every other one of the older half.
func thinned(points []Point) []Point {
	half := len(points) / 2
	kept := points[:0]
	for i, p := range points {
		if i >= half || i%2 == 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// Since returns the points after the time, in ms since 1970.
func (h *History) Since(ms int64) []Point {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	first, _ := slices.BinarySearchFunc(h.points, ms+1, func(p Point, ms int64) int { return int(p.Time - ms) })
	return append([]Point{}, h.points[first:]...)
}

// AddMoment keeps a profile and returns what it is called.
func (h *History) AddMoment(p *profile.Profile, inUse int64, asked bool) Moment {
	data := h.disk.encoded(p)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	m := h.enter(&Moment{Time: p.TimeNanos / int64(time.Millisecond), InUse: inUse, Asked: asked, profile: p})
	if m.Time == 0 {
		m.Time = time.Now().UnixMilli()
	}
	if h.disk.addMoment(m, data) {
		h.moments = h.disk.lighten(h, h.moments)
	}
	if len(h.moments) > mostMoments {
		h.dropOne()
	}
	return *m
}

// AddFile keeps a saved profile behind those that there are, however many: they are what is to be shown.
func (h *History) AddFile(name string, p *profile.Profile) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.enter(&Moment{Time: p.TimeNanos / int64(time.Millisecond), Name: name, InUse: inUse(p), Asked: true, profile: p})
}

func (h *History) enter(m *Moment) *Moment {
	h.next++
	h.looks++
	m.ID, m.looked = h.next, h.looks
	m.held = sync.OnceValues(func() (map[stack]int64, error) {
		h.mutex.Lock()
		one := *m // whose profile may go to the folder meanwhile
		h.mutex.Unlock()
		p, err := one.Profile()
		if err != nil {
			return nil, err
		}
		return inUseByStack(p)
	})
	h.moments = append(h.moments, m)
	return m
}

// dropOne lets the moment go whose neighbours are nearest to each other for how long ago it was: what remains is spread
// ever more thinly towards the past. The first, the last and those that were asked for stay as long as there are others; then
// the one goes that nobody has looked at for longest.
func (h *History) dropOne() {
	now := h.moments[len(h.moments)-1].Time
	best, least, forgotten := -1, 0.0, 1
	for i := 1; i < len(h.moments)-1; i++ {
		m := h.moments[i]
		if m.Asked {
			if m.looked < h.moments[forgotten].looked {
				forgotten = i
			}
			continue
		}
		gap := float64(h.moments[i+1].Time-h.moments[i-1].Time) / float64(now-m.Time+1000)
		if best < 0 || gap < least {
			best, least = i, gap
		}
	}
	if best < 0 {
		best = forgotten
	}
	h.moments = slices.Delete(h.moments, best, best+1)
}

// Moments lists what is kept, the oldest first.
func (h *History) Moments() []Moment {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	out := make([]Moment, len(h.moments))
	for i, m := range h.moments {
		out[i] = *m
	}
	return out
}

// Moment finds one by its id; 0 is the last one.
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

// Keep is Moment for somebody who looks at it, and may do so again: it stays when others go.
func (h *History) Keep(id int) (Moment, bool) {
	h.disk.keep(id)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, m := range h.moments {
		if m.ID == id {
			h.looks++
			m.Asked, m.looked = true, h.looks
			return *m, true
		}
	}
	return h.older(id)
}
