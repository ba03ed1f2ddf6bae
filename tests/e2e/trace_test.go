package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// What caller.cc does: 50 holes of 64 KiB, each given back by itself.
const holes, holeBytes = 50, 64 << 10

// traced runs `trace` while the program does what it is told, and returns what the tool printed.
func traced(t *testing.T, p *program, commands string, flags ...string) string {
	t.Helper()
	command := exec.Command(binary, append([]string{"trace", p.pid, "--for", "60s"}, flags...)...)
	command.Env = environment()
	var complaint bytes.Buffer
	command.Stderr = &complaint
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(stdout)
	header, err := in.ReadString('\n') // it traces once this is there
	if err != nil || !strings.Contains(header, "reason") {
		t.Fatalf("%q %v %s", header, err, complaint.String())
	}
	p.tell(t, commands)
	_ = command.Process.Signal(syscall.SIGINT)
	var out bytes.Buffer
	if _, err := out.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || complaint.Len() != 0 {
		t.Fatalf("%v %s", err, complaint.String())
	}
	return out.String()
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
		{` munmap +huge +100\.\d MiB +.* take_huge caller\.cc:\d+\n`, 1},
		{` madvise:dontneed +asked +64\.00 KiB +.* give_back_holes caller\.cc:\d+\n`, holes},
	} {
		if got := len(regexp.MustCompile(want.line).FindAllString(events+"\n", -1)); got != want.count {
			t.Errorf("%d lines like %s, want %d, in\n%s", got, want.line, want.count, out)
		}
	}
	for _, want := range []string{
		`@bytes\[madvise:dontneed, asked\]:\n(\[.*\n)*\[64K, 128K\) +50 \|@{52}\|\n`,
		`@took\[madvise:dontneed, asked\]:\n`,
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
	go func() { _, _ = p.stdin.Write([]byte("whw\n")) }()
	lines := strings.Split(strings.TrimSpace(tool(t, "trace", p.pid, "--for", "2s", "--json")), "\n")
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

// A reader that is killed leaves nothing behind that keeps others from tracing, nor the process from going on.
func TestTraceAfterAKilledReader(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	for range 3 {
		command := exec.Command(binary, "trace", p.pid)
		stdout, _ := command.StdoutPipe()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(stdout).ReadString('\n')
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	if out := traced(t, p, "h"); !strings.Contains(out, "take_huge") {
		t.Errorf("nothing in\n%s", out)
	}
}

func TestTraceEndsWithItsProcess(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	go func() { _, _ = p.stdin.Write([]byte("whwx")) }()
	out, complaint, status := try(t, "trace", p.pid, "--for", "60s")
	if status != 0 || !strings.Contains(complaint, "has ended") || !strings.Contains(out, "take_huge") {
		t.Errorf("status %d, %s\n%s", status, complaint, out)
	}
}
