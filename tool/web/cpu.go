package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// CPU profiles are taken when a page requests one. That needs --allow-set, because profiling interrupts the process's
// threads. A process has at most one CPU profile at a time. Pages start and stop the profiles of this server. A profile
// that another client has started is shown but never stopped.

const (
	cpuKind    = "cpu"
	maxCPUTime = time.Hour
)

type cpuProfiler struct {
	mutex       sync.Mutex
	running     *cpuRun
	rounds      int      // number of profiles that have ended
	lastMessage []string // comments of the last profile
	problem     string   // why the last profile is incomplete
}

// cpuRun is a running profile.
type cpuRun struct {
	profile *attach.CPUProfile
	began   time.Time
	length  time.Duration
	hz      int
	stop    chan struct{} // closed when a page stops the profile
	stopped bool
}

// cpuState is the state that the page gets.
type cpuState struct {
	Running    bool     `json:"running"`
	Elapsed    float64  `json:"elapsed_s"`
	For        float64  `json:"for_s"` // of the running profile, or the default
	Hz         int      `json:"hz"`
	MaxSeconds float64  `json:"most_s"`
	MaxHz      int      `json:"most_hz"`
	Rounds     int      `json:"rounds"` // number of profiles that have ended: the page fetches the profile when it increases
	Said       []string `json:"said"`
	Problem    string   `json:"problem,omitempty"`
}

func (s *Server) cpu(url.Values) (any, error) {
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	return s.cpuNow(), nil
}

func (s *Server) cpuNow() cpuState {
	c := &s.cpus
	c.mutex.Lock()
	defer c.mutex.Unlock()
	state := cpuState{For: attach.DefaultCPUTime.Seconds(), Hz: attach.DefaultCPUHz, MaxSeconds: maxCPUTime.Seconds(), MaxHz: attach.MaxCPUHz,
		Rounds: c.rounds, Said: append([]string{}, c.lastMessage...), Problem: c.problem}
	if run := c.running; run != nil {
		state.Running, state.For, state.Hz = true, run.length.Seconds(), run.hz
		state.Elapsed = min(time.Since(run.began), run.length).Seconds()
	}
	return state
}

// startCPU starts a profile. The answer is the state, as for GET.
func (s *Server) startCPU(r *http.Request) (any, error) {
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	var wanted struct {
		For float64 `json:"for_s"`
		Hz  int     `json:"hz"`
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		return nil, badRequest("expected {\"for_s\": …, \"hz\": …}")
	}
	switch {
	case !(wanted.For > 0 && wanted.For <= maxCPUTime.Seconds()):
		return nil, badRequest("%v s: expected more than 0 and at most %v", wanted.For, maxCPUTime.Seconds())
	case wanted.Hz < 1 || wanted.Hz > attach.MaxCPUHz:
		return nil, badRequest("%d samples a second: expected 1 to %d", wanted.Hz, attach.MaxCPUHz)
	}
	run := &cpuRun{length: time.Duration(wanted.For * float64(time.Second)), hz: wanted.Hz, stop: make(chan struct{})}
	if err := s.cpus.start(s.process, run); err != nil {
		return nil, err
	}
	s.kinds.forget(cpuKind)
	go s.followCPU(run)
	return s.cpuNow(), nil
}

func (c *cpuProfiler) start(process *Process, run *cpuRun) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.running != nil {
		return problem{http.StatusConflict, errors.New("a CPU profile started on this page is already running: stop it first")}
	}
	err := process.Do(func(client *attach.Client) (err error) {
		run.profile, err = attach.StartCPU(client, run.hz, run.length)
		return err
	})
	var refused *attach.ServerError
	if errors.As(err, &refused) && strings.Contains(refused.Text, "is running already") {
		return problem{http.StatusConflict, fmt.Errorf("%w, started elsewhere (seemalloc cpu, a signal, an option or the program): it can only be stopped there", err)}
	}
	if err != nil {
		return err
	}
	run.began = time.Now()
	c.running, c.lastMessage, c.problem = run, nil, ""
	return nil
}

// stopCPU stops a profile that a page has started, before its time.
func (s *Server) stopCPU(*http.Request) (any, error) {
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	c := &s.cpus
	c.mutex.Lock()
	run := c.running
	if run != nil && !run.stopped {
		run.stopped = true
		close(run.stop)
	}
	c.mutex.Unlock()
	if run == nil {
		return nil, problem{http.StatusConflict, errors.New("no CPU profile started on this page is running")}
	}
	return s.cpuNow(), nil
}

// followCPU stops the profile when its time is up and keeps the result. In the meantime it fetches the profile at
// intervals, so that some data is left if the process ends.
func (s *Server) followCPU(run *cpuRun) {
	over := time.After(run.length)
	look := time.NewTicker(MomentInterval)
	defer look.Stop()
	for waiting := true; waiting; {
		select {
		case <-look.C:
			_, _ = s.profileOfKind(cpuKind)
		case <-over:
			waiting = false
		case <-run.stop:
			waiting = false
		case <-s.watcher.Ended():
			waiting = false
		}
	}
	taken, err := s.endCPU(run)
	for ; isNoAnswer(err); taken, err = s.endCPU(run) {
		time.Sleep(interval)
	}
	if err == nil {
		s.kinds.put(cpuKind, taken)
		s.history.StoreProfile(cpuKind, taken)
	}
	s.cpus.end(taken, err)
}

// endCPU stops the profile and fetches its data. It may be called again.
func (s *Server) endCPU(run *cpuRun) (*profile.Profile, error) {
	var data []byte
	err := s.process.Do(func(client *attach.Client) (err error) {
		data, err = run.profile.Stop(client)
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := report.Parse(data, s.process.Name)
	if err != nil {
		return nil, problem{http.StatusBadGateway, err}
	}
	s.process.Symbolize(p)
	return p, nil
}

// isNoAnswer reports whether the error means that the process does not answer at present and may answer later.
func isNoAnswer(err error) bool {
	var refused *attach.ServerError
	var known problem
	return err != nil && !errors.As(err, &refused) && !errors.As(err, &known) && !errors.Is(err, attach.ErrExited)
}

func (c *cpuProfiler) end(p *profile.Profile, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.running = nil
	c.rounds++
	switch {
	case errors.Is(err, attach.ErrExited):
		c.problem = "The process ended before the profile: the data shown is some seconds older than its end."
	case err != nil:
		c.problem = err.Error()
	default:
		index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Unit == "nanoseconds" })
		total := int64(0)
		if index >= 0 {
			total = report.Total(p, index)
		}
		c.lastMessage = strings.Split(strings.TrimSpace(report.NewCPU(p).Text(total)), "\n")
	}
}
