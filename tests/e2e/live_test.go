package e2e

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// terminal is a tool that runs in a terminal of its own.
type terminal struct {
	t      *testing.T
	keys   *os.File
	screen vt10x.Terminal
	ended  chan error
}

func inTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = environment("TERM=xterm-256color")
	keys, err := pty.StartWithSize(command, &pty.Winsize{Rows: 30, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, keys, vt10x.New(vt10x.WithSize(120, 30), vt10x.WithWriter(keys)), make(chan error, 1)}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			if err != nil { // the other end is closed: it has ended
				break
			}
			term.screen.Write(buffer[:n])
		}
		term.ended <- command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		keys.Close()
	})
	return term
}

func (term *terminal) text() string {
	term.screen.Lock()
	defer term.screen.Unlock()
	var b strings.Builder
	for y := range 30 {
		for x := range 120 {
			b.WriteRune(term.screen.Cell(x, y).Char)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shows waits until the screen shows the pattern.
func (term *terminal) shows(pattern string) {
	term.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := term.text()
		if wanted.MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("never showed %q; at last:\n%s", pattern, text)
		}
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

func TestTopLive(t *testing.T) {
	need(t)
	p := leak(t, 300, "--sample", "1")
	term := inTerminal(t, "top", p.pid, "--live", "--interval", "250ms")
	term.shows(`(?s)leaky \(pid ` + p.pid + `\) +heap.*RSS .*bytes in use: .*36\.62 MiB .* leak_small`)
	term.press("b")
	term.shows(`Nothing has changed so far`)
	p.tell(t, "m")
	term.shows(`(?s)change of bytes in use: \+.*\+37\.50 MiB .* leak_large`)
	term.press("b/leak_large\r")
	term.shows(`(?s)filtered: focus leak_large.*75\.00 MiB .* leak_large`)
	term.press("\r")
	term.shows(`(?s)called by.*leak_large.*itself`)
	term.press("\x1b")
	term.shows(`Enter callers`)
	term.press("\t")
	term.shows(`pid ` + p.pid + `\) +allocs`)
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	term.shows(`has ended`)
	term.press("q")
	select {
	case err := <-term.ended:
		if err != nil {
			t.Errorf("after q: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("q does not end it")
	}
}

func TestTopLiveRefuses(t *testing.T) {
	need(t)
	for want, args := range map[string][]string{
		"--live: heap.pb.gz is a file; expected a process": {"top", "heap.pb.gz", "--live"},
		"--live and --json":                       {"top", "1", "--live", "--json"},
		"--live and --base":                       {"top", "1", "--live", "--base", "x"},
		"--interval 10ms: expected 250ms or more": {"top", "1", "--live", "--interval", "10ms"},
		"--interval 1s is for --live":             {"top", "1", "--interval", "1s"},
		"--live needs a terminal":                 {"top", "1", "--live"},
	} {
		if _, complaint, status := try(t, args...); status == 0 || !strings.Contains(complaint, want) {
			t.Errorf("%v: status %d, %q; want %q", args, status, complaint, want)
		}
	}
}

// A command asks the terminal nothing: one that does not answer would delay it by seconds.
func TestCommandsDoNotQueryTheTerminal(t *testing.T) {
	need(t)
	command := exec.Command(binary, "--version")
	command.Env = environment("TERM=xterm-256color")
	keys, err := pty.StartWithSize(command, &pty.Winsize{Rows: 30, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	text, _ := io.ReadAll(keys) // the error says that the other end is closed
	if err := command.Wait(); err != nil || strings.Contains(string(text), "\x1b") || !strings.Contains(string(text), "seemalloc") {
		t.Errorf("%v, %q", err, text)
	}
}
