package web

import (
	"errors"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/doctor"
	"seemalloc/tool/report"
)

// Watching may take this share of the process's time: the next full look waits so many times as long as the last one took.
const (
	interval        = time.Second
	MomentInterval  = 5 * time.Second
	statsShare      = 200
	momentShare     = 100
	doctorBetween   = 2 * time.Second
	longestInterval = time.Minute
)

// Process is a running process with its control socket. Safe for concurrent use.
type Process struct {
	Name string
	PID  int
	// Symbolize names the addresses of a profile of it.
	Symbolize func(*profile.Profile)

	mutex  sync.Mutex
	client *attach.Client
}

// NewProcess takes the connection over.
func NewProcess(client *attach.Client, name string, pid int, symbolize func(*profile.Profile)) *Process {
	return &Process{Name: name, PID: pid, Symbolize: symbolize, client: client}
}

// Do has the connection to itself.
func (p *Process) Do(f func(*attach.Client) error) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return f(p.client)
}

// Profile takes a profile of the kind, with names; took is what the process had to do with it.
func (p *Process) Profile(kind string) (taken *profile.Profile, took time.Duration, err error) {
	var data []byte
	err = p.Do(func(c *attach.Client) (err error) {
		began := time.Now()
		data, err = c.Call("profile", kind)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return nil, took, err
	}
	if taken, err = report.Parse(data, p.Name); err != nil {
		return nil, took, err
	}
	p.Symbolize(taken)
	return taken, took, nil
}

// Diagnose looks twice.
func (p *Process) Diagnose() (*doctor.Diagnosis, error) {
	take := func() (snapshot *doctor.Snapshot, err error) {
		err = p.Do(func(c *attach.Client) (err error) {
			snapshot, err = doctor.Take(c, p.PID, p.Name)
			return err
		})
		return snapshot, err
	}
	before, err := take()
	if err != nil {
		return nil, err
	}
	time.Sleep(doctorBetween)
	after, err := take()
	if err != nil {
		return nil, err
	}
	return doctor.Examine(doctor.Pair{Before: before, After: after}, doctor.All), nil
}

// Watcher fills a history until the process ends.
type Watcher struct {
	process *Process
	history *History
	between time.Duration // from one profile to the next, at least

	mutex sync.Mutex
	last  *attach.Stats
	ended error
	over  chan struct{} // closed when ended is set
}

// Watch begins to look: for figures once a second, for a heap profile once in so much time.
func Watch(p *Process, h *History, between time.Duration) *Watcher {
	w := &Watcher{process: p, history: h, between: between, over: make(chan struct{})}
	go w.points()
	go w.moments()
	return w
}

// Last is the last full look, nil before the first, and why there are none any more.
func (w *Watcher) Last() (*attach.Stats, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.last, w.ended
}

func (w *Watcher) end(err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.ended == nil {
		w.ended = err
		close(w.over)
	}
}

// Ended is closed when the process does not answer any more.
func (w *Watcher) Ended() <-chan struct{} { return w.over }

// points looks once a second; less often where a look takes long, since the kernel is asked about each region.
func (w *Watcher) points() {
	for {
		began := time.Now()
		var stats *attach.Stats
		err := w.process.Do(func(c *attach.Client) (err error) {
			stats, err = attach.FetchStats(c)
			return err
		})
		if err != nil {
			w.end(err)
			return
		}
		w.mutex.Lock()
		w.last = stats
		w.mutex.Unlock()
		w.history.Add(pointOf(stats, began))
		took := time.Since(began)
		time.Sleep(min(max(interval-took, statsShare*took), longestInterval))
	}
}

func (w *Watcher) moments() {
	for {
		began := time.Now()
		p, took, err := w.process.Profile("heap")
		var refused *attach.ServerError
		switch {
		case err == nil:
			keep(w.history, p, false)
		case !errors.As(err, &refused): // the library without a profiler says so each time
			w.end(err)
			return
		}
		time.Sleep(min(max(w.between-time.Since(began), momentShare*took), longestInterval))
	}
}

// Take keeps a heap profile of now, because somebody has asked for it.
func (w *Watcher) Take() (Moment, error) {
	p, _, err := w.process.Profile("heap")
	if err != nil {
		return Moment{}, err
	}
	return keep(w.history, p, true), nil
}

// keep adds a profile to the history, with what it has in use.
func keep(h *History, p *profile.Profile, asked bool) Moment {
	inUse := int64(0)
	if index, err := report.SampleIndex(p, "inuse", "bytes"); err == nil {
		inUse = report.Total(p, index)
	}
	return h.AddMoment(p, inUse, asked)
}

func pointOf(s *attach.Stats, at time.Time) Point {
	calls := s.System.Calls.Sum("")
	p := Point{
		Time: at.UnixMilli(), RSS: s.Memory.RSS, Live: s.Memory.Live, Cached: s.Memory.Cached,
		Fragmentation: s.Memory.Fragmentation, Metadata: s.Memory.Metadata, NotOurs: s.Memory.NotOurs,
		Dirty: s.Memory.Dirty, LiveAllocated: s.Memory.LiveAllocated,
		Faults: s.System.MinorFaults + s.System.MajorFaults, Purged: s.System.Calls.Purged(), Refaults: s.System.RefaultBytes,
		KernelCalls: calls.Calls, KernelNS: calls.NS, RemoteFrees: s.Threads.RemoteFrees, LockWaits: s.Locks.Waits(),
		Threads: s.Threads.Live,
	}
	for _, class := range s.SizeClasses {
		p.Refills += class.Refills
	}
	return p
}

// AddProfile keeps a saved profile.
func (h *History) AddProfile(p *profile.Profile) { keep(h, p, true) }
