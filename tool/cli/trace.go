package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// A trace that is not read for five seconds ends. The process keeps 4096 events between two reads.
const traceReadInterval = 100 * time.Millisecond

type traceFlags struct {
	duration       time.Duration
	asJSON, stacks bool
	hide           string
	hidden         *regexp.Regexp
}

func (a *app) traceCommand() *cobra.Command {
	var flags traceFlags
	c := &cobra.Command{
		Use:   "trace PID",
		Short: "Show each call into the kernel that the allocator makes, and its cause",
		Long: `Show each memory call into the kernel that the allocator makes in a process: time, call and reason, bytes, duration,
thread, the size class that needed it, and the place in the program that caused it (the first function outside the
allocator; --stacks also shows the callers, --hide skips wrappers). Histograms of sizes and times by call and reason, and
totals, follow at the end. Calls made to answer this tool are left out, and so are calls that do not concern memory
(futex, membarrier, reading /proc). Ends after --for, when the process ends, or at Ctrl-C.

Reasons: growth (address space for more spans), huge (blocks above 1 MiB), records and page_map (the allocator's own
metadata), decay (free for longer than purge_delay), requested (malloc_trim, seemalloc purge), pressure (memory was refused
or is short), hole (idle holes in spans in use), huge_pages (addresses that may have huge pages), zero (a large calloc:
used memory is replaced by fresh pages).`,
		Example: `  seemalloc trace 4242
  seemalloc trace 4242 --for 1m --stacks
  seemalloc trace 4242 --hide '^z(m|c|re)alloc'      # charge Redis's wrappers to their callers
  seemalloc trace 4242 --json | jq 'select(.reason == "decay")'`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error { return a.trace(flags, args) },
	}
	c.Flags().DurationVar(&flags.duration, "for", 10*time.Second, "how long to trace; 0: until the process ends or Ctrl-C")
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object per event, and a summary as the last one")
	c.Flags().BoolVar(&flags.stacks, "stacks", false, "print the whole stack below each event")
	c.Flags().StringVar(&flags.hide, "hide", "", "remove functions that match this regular expression from the stacks")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func (f *traceFlags) check() (err error) {
	if f.duration < 0 {
		return usageError("--for %s: expected 0 or more", f.duration)
	}
	if f.hide == "" {
		return nil
	}
	if f.hidden, err = regexp.Compile(f.hide); err != nil {
		return usageError("--hide: %v", err)
	}
	return nil
}

func (a *app) trace(flags traceFlags, args []string) error {
	if err := flags.check(); err != nil {
		return err
	}
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	trace, err := attach.StartTrace(t.Client)
	if err != nil {
		var refused *attach.ServerError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "unknown command") {
			return fmt.Errorf("%s: its library cannot be traced: it is older than this tool", t.name)
		}
		return err
	}
	began := time.Now()
	interrupted := make(chan os.Signal, 1) // before the header, which announces the trace
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	tracer := newTracer(a, t, flags)
	ended, err := tracer.follow(trace, interrupted)
	if !ended {
		_ = trace.Stop()
	}
	if err != nil {
		return err
	}
	if err := tracer.finish(trace, time.Since(began)); err != nil {
		return err
	}
	if ended {
		a.warn(t.name + " has ended")
	}
	return nil
}

// tracer prints events and adds up their counts.
type tracer struct {
	a       *app
	t       *target
	flags   traceFlags
	namer   *symbolize.Namer
	threads map[int]string
	totals  report.TraceTotals
	first   int64 // start of the first event
	encoder *json.Encoder
}

func newTracer(a *app, t *target, flags traceFlags) *tracer {
	tr := &tracer{a: a, t: t, flags: flags, namer: symbolize.NewNamer(t.pid), threads: map[int]string{}, encoder: json.NewEncoder(a.out)}
	if !flags.asJSON {
		fmt.Fprint(a.out, report.TraceHeader())
	}
	return tr
}

// follow reads events until it is time to stop. ended reports that the process has ended.
func (tr *tracer) follow(trace *attach.Trace, interrupted <-chan os.Signal) (ended bool, err error) {
	var stop <-chan time.Time
	if tr.flags.duration > 0 {
		stop = time.After(tr.flags.duration)
	}
	ticker := time.NewTicker(traceReadInterval)
	defer ticker.Stop()
	for last := false; !last; {
		select {
		case <-ticker.C:
		case <-stop:
			last = true
		case <-interrupted:
			last = true
		}
		events, err := trace.Read()
		if printErr := tr.print(events); printErr != nil {
			return false, printErr
		}
		if err != nil {
			var refused *attach.ServerError
			return !errors.As(err, &refused), tr.ignoreExit(err)
		}
	}
	return false, nil
}

// ignoreExit returns nil if the error only means that the process has ended.
func (tr *tracer) ignoreExit(err error) error {
	var refused *attach.ServerError
	if !errors.As(err, &refused) && processExited(tr.t.pid) {
		return nil
	}
	return err
}

// processExited reports whether the process has ended. It waits a moment, because a process closes its files before it
// ends.
func processExited(pid int) bool {
	for range 20 {
		p, err := attach.Find(pid)
		if err != nil || p.Zombie {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// traceEvent is an event in the format of `trace --json`.
type traceEvent struct {
	Seconds    float64     `json:"time_s"` // since the first event
	TimeNS     int64       `json:"monotonic_ns"`
	Call       string      `json:"call"`
	Reason     string      `json:"reason"`
	Bytes      int64       `json:"bytes"`
	NS         int64       `json:"ns"`
	Thread     int         `json:"thread"`
	ThreadName string      `json:"thread_name,omitempty"`
	SizeClass  int64       `json:"size_class,omitempty"`
	Refused    bool        `json:"refused,omitempty"`
	Place      string      `json:"place"`
	Stack      []jsonPlace `json:"stack"`
}

type jsonPlace struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int64  `json:"line,omitempty"`
}

func (tr *tracer) print(events []attach.Event) error {
	var addresses []uint64
	for _, e := range events {
		addresses = append(addresses, e.Stack...)
	}
	tr.namer.Resolve(addresses)
	for _, e := range events {
		if tr.first == 0 {
			tr.first = e.TimeNS
		}
		tr.totals.Add(e)
		stack := tr.shownStack(tr.namer.Stack(e.Stack))
		thread := tr.threadName(e.Thread)
		place := siteOf(stack, thread)
		if tr.flags.asJSON {
			if err := tr.encoder.Encode(tr.jsonEvent(e, stack, thread, place)); err != nil {
				return err
			}
			continue
		}
		text := report.TraceLine(e, tr.first, place)
		if tr.flags.stacks {
			for _, p := range stack {
				text += "             " + p.String() + "\n"
			}
		}
		if _, err := fmt.Fprint(tr.a.out, text); err != nil {
			return err
		}
	}
	return nil
}

// shownStack returns the stack without the functions that match --hide.
func (tr *tracer) shownStack(stack []symbolize.Place) []symbolize.Place {
	if tr.flags.hidden == nil {
		return stack
	}
	return slices.DeleteFunc(stack, func(p symbolize.Place) bool { return tr.flags.hidden.MatchString(p.Function) })
}

func (tr *tracer) jsonEvent(e attach.Event, stack []symbolize.Place, thread, place string) traceEvent {
	event := traceEvent{
		Seconds: float64(e.TimeNS-tr.first) / 1e9, TimeNS: e.TimeNS, Call: e.Call, Reason: e.Reason, Bytes: e.Bytes, NS: e.NS,
		Thread: e.Thread, ThreadName: thread, SizeClass: e.SizeClass, Refused: e.Refused, Place: place, Stack: []jsonPlace{},
	}
	for _, p := range stack {
		event.Stack = append(event.Stack, jsonPlace(p))
	}
	return event
}

// helperThread is the name of the allocator's helper thread.
const helperThread = "seemalloc"

func siteOf(stack []symbolize.Place, thread string) string {
	switch {
	case thread == helperThread:
		return "(the allocator's own thread)"
	case len(stack) == 0:
		return "(no stack)"
	}
	return stack[0].String()
}

// threadName returns the kernel's name of a thread. It is read when the thread first appears.
func (tr *tracer) threadName(thread int) string {
	name, known := tr.threads[thread]
	if !known {
		data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(tr.t.pid), "task", strconv.Itoa(thread), "comm"))
		name = strings.TrimSpace(string(data))
		tr.threads[thread] = name
	}
	return name
}

func (tr *tracer) finish(trace *attach.Trace, elapsed time.Duration) error {
	if tr.flags.asJSON {
		return tr.encoder.Encode(map[string]any{"summary": tr.totals.Summary(elapsed, trace.Lost, trace.Dropped)})
	}
	_, err := fmt.Fprint(tr.a.out, tr.totals.Text(elapsed, trace.Lost, trace.Dropped))
	return err
}
