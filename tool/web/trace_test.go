package web

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seemalloc/tool/attach/fake"
)

// Pages share one trace. Each gets the events that it does not have yet. The trace ends without requests and starts
// again later.
func TestTraceWhilePagesRequestIt(t *testing.T) {
	socket := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	var mutex sync.Mutex
	var commands []string
	events := 0
	socket.Answers["trace"] = func(args []string) string {
		mutex.Lock()
		defer mutex.Unlock()
		if args[0] != "read" {
			commands = append(commands, args[0])
			return "7"
		}
		text := ""
		for ; events > 0; events-- {
			text += fmt.Sprintf("%d mmap huge 4096 700 1 - 0 -\n", 1000+events)
		}
		return text + "lost 2 dropped 1 more 0\n"
	}
	base, server := unwatched(t, socket)
	request := func(since int64) (seen traced) {
		if status, body := get(t, fmt.Sprintf("%sapi/trace?since=%d", base, since), &seen); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return seen
	}
	until := func(what string, done func(traced) bool) traced {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if seen := request(0); done(seen) {
				return seen
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, seen)
			}
		}
	}
	if first := request(0); !first.Running || len(first.Events) != 0 {
		t.Errorf("%+v", first)
	}
	mutex.Lock()
	events = 3
	mutex.Unlock()
	seen := until("three events", func(seen traced) bool { return len(seen.Events) == 3 })
	if c := seen.Calls[0]; len(seen.Calls) != 1 || c.Call != "mmap" || c.Reason != "huge" || c.Calls != 3 || c.Bytes != 3*4096 || c.Sizes[0].Count != 3 {
		t.Errorf("%+v", seen.Calls)
	}
	if seen.Lost != 2 || seen.Dropped != 1 || seen.Next != 3 || len(request(2).Events) != 1 || len(request(3).Events) != 0 {
		t.Errorf("%+v", seen)
	}
	server.tracer.mutex.Lock()
	server.tracer.lastRequest = time.Now().Add(-time.Hour)
	server.tracer.mutex.Unlock()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		server.tracer.mutex.Lock()
		running := server.tracer.running
		server.tracer.mutex.Unlock()
		if !running {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the trace continues without requests")
		}
	}
	if again := request(0); !again.Running || len(again.Events) != 0 || len(again.Calls) != 0 {
		t.Errorf("%+v", again)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if got := strings.Join(commands, " "); got != "start stop start" {
		t.Errorf("commands: %s", got)
	}
}

func TestTraceKeepsALimitedNumberOfEvents(t *testing.T) {
	var one tracer
	for i := range 3 * maxTracedEvents {
		one.keep(traceEvent{ID: int64(i)})
	}
	if len(one.events) > maxTracedEvents || one.events[len(one.events)-1].ID != 3*maxTracedEvents-1 {
		t.Errorf("%d events, the last %+v", len(one.events), one.events[len(one.events)-1])
	}
}
