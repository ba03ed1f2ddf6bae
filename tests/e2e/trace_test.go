package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The calls of caller.cc: 50 holes of 64 KiB, each returned to the OS separately.
const holes, holeBytes = 50, 64 << 10

// traced runs `trace` while the program executes the commands, and returns the tool's output.
func traced(t *testing.T, p *program, commands string, flags ...string) string {
	t.Helper()
	trace := follow(t, append([]string{"trace", p.pid, "--for", "1h"}, flags...)...)
	header, err := trace.lines.ReadString('\n') // the trace has started once this arrives
	if err != nil || !strings.Contains(header, "reason") {
		t.Fatalf("%q %v %s", header, err, trace.complaint.String())
	}
	p.tell(t, commands)
	_ = trace.Process.Signal(syscall.SIGINT)
	out, err := io.ReadAll(trace.lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Wait(); err != nil || trace.complaint.Len() != 0 {
		t.Fatalf("%v %s", err, trace.complaint.String())
	}
	return string(out)
}

func TestTraceShowsKnownCalls(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--conf", "purge_delay:60000", "--", caller)
	waitFor(t, socketOf(p.pid))
	out := traced(t, p, "hg")
	events, summary, found := strings.Cut(out, "\n\n")
	if !found {
		t.Fatalf("no summary in\n%s", out)
	}
	for _, want := range []struct {
		line  string
		count int
	}{
		{`\n? +\d+\.\d{6} mmap +huge +100\.\d MiB +.* take_huge caller\.cc:\d+\n`, 1},
		{` munmap +decay +100\.\d MiB +.* take_huge caller\.cc:\d+\n`, 1},
		{` madvise:dontneed +requested +64\.00 KiB +.* give_back_holes caller\.cc:\d+\n`, holes},
	} {
		if got := len(regexp.MustCompile(want.line).FindAllString(events+"\n", -1)); got != want.count {
			t.Errorf("%d lines like %s, want %d, in\n%s", got, want.line, want.count, out)
		}
	}
	for _, want := range []string{
		`@bytes\[madvise:dontneed, requested\]:\n(\[.*\n)*\[64K, 128K\) +50 \|@{52}\|\n`,
		`@took\[madvise:dontneed, requested\]:\n`,
		`\nEvents lost 0 \(.*\), dropped 0 \(`,
	} {
		if !regexp.MustCompile(want).MatchString(summary) {
			t.Errorf("%s is not in\n%s", want, summary)
		}
	}
	if strings.Contains(out, "report") {
		t.Errorf("calls made for the tool itself are shown:\n%s", out)
	}
}

func TestTraceStacks(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	out := traced(t, p, "h", "--stacks")
	if !regexp.MustCompile(`\n +take_huge caller\.cc:\d+\n +obey.* caller\.cc:\d+\n +main caller\.cc:\d+\n`).MatchString(out) {
		t.Errorf("no stack in\n%s", out)
	}
}

func TestTraceJSON(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	trace := follow(t, "trace", p.pid, "--for", "0", "--json")
	// It prints nothing before the first call.
	first := make(chan string, 1)
	go func() {
		line, _ := trace.lines.ReadString('\n')
		first <- line
	}()
	var text string
	for text == "" {
		p.tell(t, "h")
		select {
		case text = <-first:
		case <-time.After(100 * time.Millisecond):
		}
	}
	p.tell(t, "h")
	_ = trace.Process.Signal(syscall.SIGINT)
	rest, err := io.ReadAll(trace.lines)
	if err := errors.Join(err, trace.Wait()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text+string(rest)), "\n")
	seen := false
	for _, line := range lines[:len(lines)-1] {
		var event struct {
			Call, Reason, Place string
			Bytes               int64
			Stack               []struct{ Function string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		seen = seen || event.Call == "mmap" && event.Reason == "huge" && event.Bytes >= 100<<20 && event.Stack[0].Function == "take_huge"
	}
	if !seen {
		t.Errorf("no mmap of take_huge in\n%s", strings.Join(lines, "\n"))
	}
	var last struct {
		Summary struct {
			Calls []struct {
				Call, Reason string
				Calls        int64
			}
		}
	}
	parse(t, lines[len(lines)-1], &last)
	if len(last.Summary.Calls) == 0 {
		t.Errorf("no summary in %s", lines[len(lines)-1])
	}
}

// A killed reader leaves nothing behind that keeps others from tracing, or the process from continuing.
func TestTraceAfterAKilledReader(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	for range 3 {
		trace := follow(t, "trace", p.pid)
		_, _ = trace.lines.ReadString('\n')
		_ = trace.Process.Kill()
		_ = trace.Wait()
	}
	if out := traced(t, p, "h"); !strings.Contains(out, "take_huge") {
		t.Errorf("nothing in\n%s", out)
	}
}

func TestTraceEndsWithItsProcess(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	trace := follow(t, "trace", p.pid, "--for", "0")
	line, err := trace.lines.ReadString('\n')
	if err != nil { // the header: the trace has started
		t.Fatal(err)
	}
	p.tell(t, "h")
	for !strings.Contains(line, "take_huge") {
		if line, err = trace.lines.ReadString('\n'); err != nil {
			t.Fatalf("%v, %s", err, trace.complaint.String())
		}
	}
	if _, err := io.WriteString(p.stdin, "x"); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(trace.lines)
	if err := errors.Join(err, trace.Wait()); err != nil || !strings.Contains(trace.complaint.String(), "has ended") {
		t.Errorf("%v, %s", err, trace.complaint.String())
	}
}
