package web

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/doctor"
	"seemalloc/tool/report"
)

// Watching may take this share of the process's time: the next look waits so many times as long as the last one kept the process
// busy, however many pages ask. But it is looked at each minute, whatever that takes.
const (
	interval        = time.Second
	MomentInterval  = 5 * time.Second
	statsShare      = 200
	momentShare     = 100
	toolShare       = 4 // of this tool's time, for names and for writing
	doctorBetween   = 2 * time.Second
	longestInterval = time.Minute
)

// Process is a running process with its control socket. Safe for concurrent use.
type Process struct {
	Name string
	PID  int
	// Symbolize names the addresses of a profile of it.
	Symbolize func(*profile.Profile)
	// Dial makes another connection when one is lost: a process that was stopped may go on. Its error is attach.ErrEnded when the
	// process is gone. Nil: what is lost stays lost.
	Dial func() (*attach.Client, error)

	mutex  sync.Mutex
	client *attach.Client
}

// NewProcess takes the connection over.
func NewProcess(client *attach.Client, name string, pid int, symbolize func(*profile.Profile)) *Process {
	return &Process{Name: name, PID: pid, Symbolize: symbolize, client: client}
}

// Do has the connection to itself; attach.ErrEnded when there can be none any more.
func (p *Process) Do(f func(*attach.Client) error) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if lost := p.client.Lost(); lost != nil {
		if err := p.connect(lost); err != nil {
			return err
		}
	}
	return f(p.client)
}

// connect replaces a connection that is lost, once the process answers. It is asked for nothing but a sign of life: a process that
// is stopped does all that it was asked meanwhile when it goes on.
func (p *Process) connect(lost error) error {
	if p.Dial == nil {
		return fmt.Errorf("%w (%w)", lost, attach.ErrEnded)
	}
	client, err := p.Dial()
	if err != nil {
		return err
	}
	if _, err := client.Call("ping"); err != nil {
		client.Close()
		return err
	}
	p.client = client
	return nil
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

// paced is something that the process is asked for when a page asks, however many pages and however fast.
type paced[T any] struct {
	mutex sync.Mutex // held while it is asked: all that ask meanwhile get the same
	value T
	until time.Time // for so long it is not asked again
}

// get returns what take makes, or made not long ago; took is what the process had to do with it.
func (p *paced[T]) get(take func() (taken T, took time.Duration, err error)) (T, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Now().Before(p.until) {
		return p.value, nil
	}
	taken, took, err := take()
	if err == nil {
		p.value, p.until = taken, time.Now().Add(min(momentShare*took, longestInterval))
	}
	return taken, err
}

// set has it asked for at once the next time; value is the last one until then.
func (p *paced[T]) set(value T) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.value, p.until = value, time.Time{}
}

// last is what was made last, however long ago.
func (p *paced[T]) last() T {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.value
}

// kindsTaken are profiles of other kinds than heap, each by its name.
type kindsTaken struct {
	mutex sync.Mutex
	by    map[string]*paced[*profile.Profile]
}

// get is the last one once the process has ended.
func (k *kindsTaken) get(name string, take func() (taken *profile.Profile, took time.Duration, err error)) (*profile.Profile, error) {
	one := k.of(name)
	taken, err := one.get(take)
	if errors.Is(err, attach.ErrEnded) {
		if last := one.last(); last != nil {
			return last, nil
		}
	}
	return taken, err
}

// forget has the next one taken at once.
func (k *kindsTaken) forget(name string) { k.of(name).set(nil) }

// put keeps one that was taken otherwise; the next is taken at once.
func (k *kindsTaken) put(name string, taken *profile.Profile) { k.of(name).set(taken) }

func (k *kindsTaken) of(name string) *paced[*profile.Profile] {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	one := k.by[name]
	if one == nil {
		if k.by == nil {
			k.by = map[string]*paced[*profile.Profile]{}
		}
		one = &paced[*profile.Profile]{}
		k.by[name] = one
	}
	return one
}

// Diagnose looks twice; took is what the process had to do with it.
func (p *Process) Diagnose() (found *doctor.Diagnosis, took time.Duration, err error) {
	take := func() (snapshot *doctor.Snapshot, err error) {
		err = p.Do(func(c *attach.Client) (err error) {
			began := time.Now()
			snapshot, err = doctor.Take(c, p.PID, p.Name)
			took += time.Since(began)
			return err
		})
		return snapshot, err
	}
	before, err := take()
	if err != nil {
		return nil, took, err
	}
	time.Sleep(doctorBetween)
	after, err := take()
	if err != nil {
		return nil, took, err
	}
	return doctor.Examine(doctor.Pair{Before: before, After: after}, doctor.All), took, nil
}

// Watcher fills a history until the process ends.
type Watcher struct {
	process *Process
	history *History
	between time.Duration // from one profile to the next, at least

	mutex    sync.Mutex
	last     *attach.Stats
	ended    error
	over     chan struct{} // closed when ended is set
	failures [2]error      // of the last look and of the last profile; nil: it did not fail
	refused  error         // why the process takes no profiles, such as the library without a profiler

	asked paced[Moment] // the last one that a page wanted to have
}

// Which of the failures.
const (
	ofPoints = iota
	ofMoments
)

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

// Silent says why the process cannot be looked at just now, nil if it can.
func (w *Watcher) Silent() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.failures[ofPoints] != nil {
		return w.failures[ofPoints]
	}
	return w.failures[ofMoments]
}

// heard keeps how it went; false when there is nothing more to be asked.
func (w *Watcher) heard(which int, err error) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failures[which] = err
	if errors.Is(err, attach.ErrEnded) && w.ended == nil {
		w.ended = err
		close(w.over)
	}
	return w.ended == nil
}

// Ended is closed when the process does not answer any more.
func (w *Watcher) Ended() <-chan struct{} { return w.over }

// points looks once a second; less often where a look takes long, since the kernel is asked about each region.
func (w *Watcher) points() {
	if w.history.disk != nil {
		if all, err := w.process.settings(); err == nil {
			w.history.Note("settings", all)
		}
	}
	for {
		var began time.Time
		var took time.Duration
		var stats *attach.Stats
		err := w.process.Do(func(c *attach.Client) (err error) {
			began = time.Now() // not while others ask
			stats, err = attach.FetchStats(c)
			took = time.Since(began)
			return err
		})
		if !w.heard(ofPoints, err) {
			return
		}
		if err != nil {
			time.Sleep(interval)
			continue
		}
		w.mutex.Lock()
		w.last = stats
		w.mutex.Unlock()
		w.history.Add(pointOf(stats, began))
		w.history.Note("stats", stats)
		time.Sleep(min(max(interval-time.Since(began), statsShare*took), longestInterval))
	}
}

// Refused says why the process takes no profiles, nil if it does.
func (w *Watcher) Refused() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.refused
}

func (w *Watcher) moments() {
	for {
		began := time.Now()
		p, took, err := w.process.Profile("heap")
		if err == nil {
			keep(w.history, p, false)
		}
		var refused *attach.ServerError
		isRefused := errors.As(err, &refused)
		w.mutex.Lock()
		w.refused = nil
		if isRefused {
			w.refused, err = err, nil
		}
		w.mutex.Unlock()
		if !w.heard(ofMoments, err) {
			return
		}
		if isRefused { // the library without a profiler will say so again
			time.Sleep(longestInterval)
			continue
		}
		if err != nil { // it took as long as was waited for it
			time.Sleep(interval)
			continue
		}
		time.Sleep(min(max(w.between-time.Since(began), momentShare*took, toolShare*time.Since(began)), longestInterval))
	}
}

// Take keeps a heap profile of now, because somebody has asked for it, or gives the one that somebody has just asked for.
func (w *Watcher) Take() (Moment, error) {
	return w.asked.get(func() (Moment, time.Duration, error) {
		p, took, err := w.process.Profile("heap")
		if err != nil {
			return Moment{}, took, err
		}
		return keep(w.history, p, true), took, nil
	})
}

// keep adds a profile to the history, with what it has in use.
func keep(h *History, p *profile.Profile, asked bool) Moment {
	return h.AddMoment(p, inUse(p), asked)
}

// inUse is 0 for profiles of something else.
func inUse(p *profile.Profile) int64 {
	index, err := report.SampleIndex(p, "inuse", "bytes")
	if err != nil {
		return 0
	}
	return report.Total(p, index)
}

func pointOf(s *attach.Stats, at time.Time) Point {
	calls := s.System.Calls.Sum("")
	p := Point{
		Time: at.UnixMilli(), RSS: s.Memory.RSS, Live: s.Memory.Live, Cached: s.Memory.Cached,
		Fragmentation: s.Memory.Fragmentation, Metadata: s.Memory.Metadata, NotOurs: s.Memory.NotOurs,
		Dirty: s.Memory.Dirty, LiveAllocated: s.Memory.LiveAllocated, Allocated: s.Blocks.AllocatedBytes,
		Faults: s.System.MinorFaults + s.System.MajorFaults, Purged: s.System.Calls.Purged(), Refaults: s.System.RefaultBytes,
		KernelCalls: calls.Calls, KernelNS: calls.NS, RemoteFrees: s.Threads.RemoteFrees, LockWaits: s.Locks.Waits(),
		Threads: s.Threads.Live,
	}
	if s.Memory.Uncertain != nil {
		p.Unsure = *s.Memory.Uncertain
	}
	for _, class := range s.SizeClasses {
		p.Refills += class.Refills
	}
	return p
}

// AddProfile keeps a saved profile.
func (h *History) AddProfile(p *profile.Profile) { h.AddFile("", p) }
