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

// Observation may use only a small share of the process's time: the wait until the next query is a multiple
// (statsShare, momentShare) of the time for which the last query kept the process busy, however many pages there are.
// The wait is at most maxInterval in any case.
const (
	interval       = time.Second
	MomentInterval = 5 * time.Second
	statsShare     = 200
	momentShare    = 100
	toolShare      = 4 // likewise, a multiple of this tool's own time for symbolizing and writing
	doctorBetween  = 2 * time.Second
	maxInterval    = time.Minute
)

// Process is a running process with its control socket. Safe for concurrent use.
type Process struct {
	Name string
	PID  int
	// Symbolize symbolizes a profile of the process.
	Symbolize func(*profile.Profile)
	// Dial opens another connection after one is lost, since a stopped process may continue. It returns
	// attach.ErrExited if the process has ended. If it is nil, a lost connection is final.
	Dial func() (*attach.Client, error)

	mutex  sync.Mutex
	client *attach.Client
}

// NewProcess takes ownership of the connection.
func NewProcess(client *attach.Client, name string, pid int, symbolize func(*profile.Profile)) *Process {
	return &Process{Name: name, PID: pid, Symbolize: symbolize, client: client}
}

// Do calls f with exclusive access to the connection. It returns attach.ErrExited if the process has ended.
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

// connect replaces a lost connection when the process answers. It sends only a ping: a stopped process executes all
// commands that it has received when it continues.
func (p *Process) connect(lost error) error {
	if p.Dial == nil {
		return fmt.Errorf("%w (%w)", lost, attach.ErrExited)
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

// Profile takes a symbolized profile of the kind. took is the time for which the process was busy.
func (p *Process) Profile(kind string) (taken *profile.Profile, elapsed time.Duration, err error) {
	var data []byte
	err = p.Do(func(c *attach.Client) (err error) {
		meter := attach.StartMeter(p.PID)
		data, err = c.Call("profile", kind)
		elapsed = meter.Busy()
		return err
	})
	if err != nil {
		return nil, elapsed, err
	}
	if taken, err = report.Parse(data, p.Name); err != nil {
		return nil, elapsed, err
	}
	p.Symbolize(taken)
	return taken, elapsed, nil
}

// rateLimited caches the answer to an expensive query, so that its rate is limited however many pages there are and
// however fast they send requests.
type rateLimited[T any] struct {
	mutex sync.Mutex // held during the query: all concurrent requests get the same answer
	value T
	until time.Time // no new query before this time
}

// get returns the answer of take, or a recent one. took is the time for which the process was busy.
func (p *rateLimited[T]) get(take func() (taken T, elapsed time.Duration, err error)) (T, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Now().Before(p.until) {
		return p.value, nil
	}
	taken, elapsed, err := take()
	if err == nil {
		p.value, p.until = taken, time.Now().Add(min(momentShare*elapsed, maxInterval))
	}
	return taken, err
}

// set replaces the value, and lets the next get query at once.
func (p *rateLimited[T]) set(value T) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.value, p.until = value, time.Time{}
}

// last returns the last value, whatever its age.
func (p *rateLimited[T]) last() T {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.value
}

// recentProfiles caches profiles of the other kinds, by name.
type recentProfiles struct {
	mutex sync.Mutex
	by    map[string]*rateLimited[*profile.Profile]
}

// get returns the last profile after the process has ended.
func (k *recentProfiles) get(name string, take func() (taken *profile.Profile, elapsed time.Duration, err error)) (*profile.Profile, error) {
	one := k.of(name)
	taken, err := one.get(take)
	if errors.Is(err, attach.ErrExited) {
		if last := one.last(); last != nil {
			return last, nil
		}
	}
	return taken, err
}

// forget makes the next get take a new profile.
func (k *recentProfiles) forget(name string) { k.of(name).set(nil) }

// put stores a profile that was taken elsewhere. The next get takes a new one.
func (k *recentProfiles) put(name string, taken *profile.Profile) { k.of(name).set(taken) }

func (k *recentProfiles) of(name string) *rateLimited[*profile.Profile] {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	one := k.by[name]
	if one == nil {
		if k.by == nil {
			k.by = map[string]*rateLimited[*profile.Profile]{}
		}
		one = &rateLimited[*profile.Profile]{}
		k.by[name] = one
	}
	return one
}

// Diagnose takes two snapshots, and judges growth by the history. elapsed is the time for which the process was busy.
func (p *Process) Diagnose(h *History) (found *doctor.Diagnosis, elapsed time.Duration, err error) {
	take := func() (snapshot *doctor.Snapshot, err error) {
		err = p.Do(func(c *attach.Client) (err error) {
			meter := attach.StartMeter(p.PID)
			snapshot, err = doctor.TakeSnapshot(c, p.PID, p.Name)
			elapsed += meter.Busy()
			return err
		})
		return snapshot, err
	}
	before, err := take()
	if err != nil {
		return nil, elapsed, err
	}
	time.Sleep(doctorBetween)
	after, err := take()
	if err != nil {
		return nil, elapsed, err
	}
	pair := doctor.Pair{Before: before, After: after, NoGrowth: "too few profiles so far: check again in some seconds"}
	if pair.Growth, err = h.recentGrowth(); err != nil {
		pair.NoGrowth = err.Error()
	}
	return doctor.Examine(pair, doctor.All), elapsed, nil
}

// Watcher fills a history until the process ends.
type Watcher struct {
	process *Process
	history *History
	between time.Duration // minimum time between two profiles

	mutex    sync.Mutex
	last     *attach.Stats
	info     *processInfo // nil before the first statistics
	ended    error
	over     chan struct{} // closed when ended is set
	failures [2]error      // of the last statistics and of the last profile; nil: no failure
	refused  error         // why the process provides no profiles, such as a library without a profiler

	asked rateLimited[Moment] // the last moment that a page has requested
}

// Indices of failures.
const (
	pointsQuery = iota
	momentsQuery
)

// Watch starts to observe the process: statistics every second, and a heap profile at the given interval.
func Watch(p *Process, h *History, between time.Duration) *Watcher {
	w := &Watcher{process: p, history: h, between: between, over: make(chan struct{})}
	go w.points()
	go w.moments()
	return w
}

// Last returns the last full statistics (nil before the first), and the reason why there are no new ones.
func (w *Watcher) Last() (*attach.Stats, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.last, w.ended
}

func (w *Watcher) processInfo() *processInfo {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.info
}

// NotAnswering returns why the process cannot be queried at present, or nil.
func (w *Watcher) NotAnswering() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.failures[pointsQuery] != nil {
		return w.failures[pointsQuery]
	}
	return w.failures[momentsQuery]
}

// setAnswering records the result of a query. It returns false if the process has ended.
func (w *Watcher) setAnswering(which int, err error) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failures[which] = err
	if errors.Is(err, attach.ErrExited) && w.ended == nil {
		w.ended = err
		close(w.over)
	}
	return w.ended == nil
}

// Ended is closed when the process has ended.
func (w *Watcher) Ended() <-chan struct{} { return w.over }

// points queries the statistics once a second, or less often if a query takes long, because the kernel is asked about
// each region.
func (w *Watcher) points() {
	if w.history.disk != nil {
		if all, err := w.process.settings(); err == nil {
			w.history.StoreAnswer("settings", all)
		}
	}
	for {
		var began time.Time
		var elapsed time.Duration
		var stats *attach.Stats
		err := w.process.Do(func(c *attach.Client) (err error) {
			began = time.Now() // excludes the time for which other queries hold the connection
			meter := attach.StartMeter(w.process.PID)
			stats, err = attach.FetchStats(c)
			elapsed = meter.Busy()
			return err
		})
		if !w.setAnswering(pointsQuery, err) {
			return
		}
		if err != nil {
			time.Sleep(interval)
			continue
		}
		w.mutex.Lock()
		isFirst := w.info == nil
		if isFirst {
			w.info = w.process.infoOf(stats, began)
		}
		w.last = stats
		w.mutex.Unlock()
		if isFirst {
			w.history.StoreAnswer("process", w.info)
		}
		w.history.Add(pointOf(stats, began))
		w.history.StoreAnswer("stats", stats)
		time.Sleep(min(max(interval-time.Since(began), statsShare*elapsed), maxInterval))
	}
}

// Refused returns why the process provides no profiles, or nil.
func (w *Watcher) Refused() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.refused
}

func (w *Watcher) moments() {
	for {
		began := time.Now()
		p, elapsed, err := w.process.Profile("heap")
		if err == nil {
			addToHistory(w.history, p, false)
		}
		var refused *attach.ServerError
		isRefused := errors.As(err, &refused)
		w.mutex.Lock()
		w.refused = nil
		if isRefused {
			w.refused, err = err, nil
		}
		w.mutex.Unlock()
		if !w.setAnswering(momentsQuery, err) {
			return
		}
		if isRefused { // a library without a profiler will answer the same again
			time.Sleep(maxInterval)
			continue
		}
		if err != nil { // took is only the time-out of the query
			time.Sleep(interval)
			continue
		}
		time.Sleep(min(max(w.between-time.Since(began), momentShare*elapsed, toolShare*time.Since(began)), maxInterval))
	}
}

// Take takes a heap profile on request and stores it. It returns the same one for requests in quick succession.
func (w *Watcher) Take() (Moment, error) {
	return w.asked.get(func() (Moment, time.Duration, error) {
		p, elapsed, err := w.process.Profile("heap")
		if err != nil {
			return Moment{}, elapsed, err
		}
		return addToHistory(w.history, p, true), elapsed, nil
	})
}

// addToHistory adds a profile to the history, with its live bytes.
func addToHistory(h *History, p *profile.Profile, asked bool) Moment {
	return h.AddMoment(p, inUse(p), asked)
}

// inUse returns 0 for profiles without live bytes.
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
		Fragmentation: s.Memory.Fragmentation, Metadata: s.Memory.Metadata, Foreign: s.Memory.Foreign,
		Dirty: s.Memory.Dirty, LiveAllocated: s.Memory.LiveAllocated, Allocated: s.Blocks.AllocatedBytes,
		Faults: s.System.MinorFaults + s.System.MajorFaults, Purged: s.System.Calls.Purged(), Refaults: s.System.RefaultBytes,
		KernelCalls: calls.Calls, KernelNS: calls.NS, RemoteFrees: s.Threads.RemoteFrees, LockWaits: s.Locks.Waits(),
		Threads: s.Threads.Live,
	}
	if s.Memory.ErrorBound != nil {
		p.ErrorBound = *s.Memory.ErrorBound
	}
	for _, class := range s.SizeClasses {
		p.Refills += class.Refills
	}
	return p
}

// AddProfile adds a saved profile.
func (h *History) AddProfile(p *profile.Profile) { h.AddFile("", p) }
