package web

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

const (
	traceRead        = 200 * time.Millisecond // the process keeps 4096 events between two reads
	traceIdleTimeout = 30 * time.Second       // the trace ends if no page has requested it for this long
	maxTracedEvents  = 2000                   // events
	maxSentEvents    = 500                    // maximum per answer, the latest ones
)

// tracer traces the process's calls into the kernel while a page shows them.
type tracer struct {
	mutex       sync.Mutex
	running     bool
	lastRequest time.Time // time of the last request of a page
	began       time.Time
	first       int64 // start of the first event
	totals      report.TraceTotals
	events      []traceEvent
	next        int64 // id of the next event
	lost        int64
	dropped     int64
	ended       string // why the trace has ended
	namer       *symbolize.Namer
	threads     map[int]string
}

// traceEvent is one call in the format of the page.
type traceEvent struct {
	ID        int64    `json:"id"`
	Seconds   float64  `json:"time_s"` // since the first event
	Call      string   `json:"call"`
	Reason    string   `json:"reason"`
	Bytes     int64    `json:"bytes"`
	NS        int64    `json:"ns"`
	Thread    int      `json:"thread"`
	Name      string   `json:"thread_name"`
	SizeClass int64    `json:"size_class,omitempty"`
	Refused   bool     `json:"refused,omitempty"`
	Stack     []string `json:"stack"` // places, innermost first
}

// traced holds the totals since the trace began, and the events after the last one that the page has.
type traced struct {
	report.TraceSummary
	Running bool         `json:"running"`
	Ended   string       `json:"ended,omitempty"`
	Next    int64        `json:"next"`
	Events  []traceEvent `json:"events"`
}

// trace starts a trace if none is running, and answers with its data.
func (s *Server) trace(q url.Values) (any, error) {
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	since, err := number(q, "since")
	if err != nil {
		return nil, err
	}
	t := &s.tracer
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.lastRequest = time.Now()
	if !t.running {
		if err := t.start(s.process); err != nil {
			return nil, err
		}
	}
	events := t.events
	for len(events) > 0 && events[0].ID < since {
		events = events[1:]
	}
	if len(events) > maxSentEvents {
		events = events[len(events)-maxSentEvents:]
	}
	return traced{TraceSummary: t.totals.Summary(time.Since(t.began), t.lost, t.dropped), Running: t.running, Ended: t.ended, Next: t.next,
		Events: append([]traceEvent{}, events...)}, nil
}

// start starts a new trace and discards the data of an earlier one. It requires the mutex.
func (t *tracer) start(process *Process) error {
	var trace *attach.Trace
	err := process.Do(func(c *attach.Client) (err error) {
		trace, err = attach.StartTrace(c)
		return err
	})
	if err != nil {
		return err
	}
	t.running, t.ended, t.began, t.first = true, "", time.Now(), 0
	t.totals, t.events, t.lost, t.dropped = report.TraceTotals{}, nil, 0, 0
	if t.namer == nil {
		t.namer, t.threads = symbolize.NewNamer(process.PID), map[int]string{}
	}
	go t.follow(process, trace)
	return nil
}

// follow reads until no page requests the trace any more, or until the process does not answer.
func (t *tracer) follow(process *Process, trace *attach.Trace) {
	for {
		time.Sleep(traceRead)
		t.mutex.Lock()
		idle := time.Since(t.lastRequest) > traceIdleTimeout
		t.mutex.Unlock()
		var events []attach.Event
		err := process.Do(func(*attach.Client) (err error) {
			if idle {
				return errors.Join(trace.Stop(), errNoViewer)
			}
			events, err = trace.Read()
			return err
		})
		t.mutex.Lock()
		for _, e := range events {
			t.add(process.PID, e)
		}
		t.lost, t.dropped = trace.Lost, trace.Dropped
		if err != nil {
			t.running, t.ended = false, err.Error()
		}
		t.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

var errNoViewer = errors.New("no page requests the trace")

func (t *tracer) add(pid int, e attach.Event) {
	if t.first == 0 {
		t.first = e.TimeNS
	}
	t.totals.Add(e)
	t.namer.Resolve(e.Stack)
	event := traceEvent{ID: t.next, Seconds: float64(e.TimeNS-t.first) / 1e9, Call: e.Call, Reason: e.Reason, Bytes: e.Bytes, NS: e.NS,
		Thread: e.Thread, Name: t.threadName(pid, e.Thread), SizeClass: e.SizeClass, Refused: e.Refused, Stack: []string{}}
	for _, place := range t.namer.Stack(e.Stack) {
		event.Stack = append(event.Stack, place.String())
	}
	t.next++
	t.keep(event)
}

func (t *tracer) keep(event traceEvent) {
	if len(t.events) == maxTracedEvents {
		t.events = append([]traceEvent{}, t.events[maxTracedEvents/2:]...)
	}
	t.events = append(t.events, event)
}

// threadName returns the kernel's name of a thread. It is read when the thread first appears.
func (t *tracer) threadName(pid, thread int) string {
	name, known := t.threads[thread]
	if !known {
		data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(thread), "comm"))
		name = strings.TrimSpace(string(data))
		t.threads[thread] = name
	}
	return name
}
