package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/web"
)

// saveProfile writes a heap profile. A time of 0 means no time.
func saveProfile(t *testing.T, name string, seconds int64) string {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}, TimeNanos: seconds * 1e9}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// All files are shown, sorted by time. If one has no time, they keep the given order and a message says so.
func TestSavedProfilesOfThePage(t *testing.T) {
	const many = 200
	var files []string
	for i := range int64(many) {
		files = append(files, saveProfile(t, fmt.Sprint(i), 1e9+(i*7919)%many))
	}
	for _, timeless := range []string{"", "timeless.pb.gz"} {
		var stderr bytes.Buffer
		a, history := &app{err: &stderr}, &web.History{}
		given := files
		if timeless != "" {
			given = append(given, saveProfile(t, timeless, 0))
		}
		if _, err := a.webOfFiles(webFlags{}, given, history); err != nil {
			t.Fatal(err)
		}
		moments := history.Moments()
		if len(moments) != len(given) {
			t.Fatalf("%d of %d files", len(moments), len(given))
		}
		for i := range moments {
			if timeless == "" && i > 0 && moments[i].Time <= moments[i-1].Time {
				t.Errorf("file %d is not later than the one before", i)
			}
			if timeless != "" && moments[i].Name != filepath.Base(given[i]) {
				t.Errorf("file %d is %s instead of %s", i, moments[i].Name, given[i])
			}
		}
		if last := moments[len(moments)-1]; timeless != "" && last.Time != 0 {
			t.Errorf("its time is %d", last.Time)
		}
		if strings.Contains(stderr.String(), "has no time") != (timeless != "") {
			t.Errorf("stderr: %q", stderr.String())
		}
	}
}

// shell runs a script and waits until it reports that it is ready.
func shell(t *testing.T, script string) (started *child, logPath string) {
	t.Helper()
	logPath = filepath.Join(t.TempDir(), "log")
	started = &child{command: exec.Command("/bin/sh", "-c", script), ended: make(chan struct{})}
	started.command.Env = append(os.Environ(), "LOG="+logPath)
	if err := started.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.command.Process.Kill() })
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(logPath); strings.Contains(string(text), "ready") {
			return started, logPath
		}
		if time.Now().After(deadline) {
			t.Fatal("the script is not ready")
		}
	}
}

// After Ctrl-C the command handles the signal, and its status becomes the tool's status, even if a signal ended it.
func TestAfterCtrlC(t *testing.T) {
	const trap = `trap 'echo terminated >>"$LOG"' TERM; trap 'echo interrupted >>"$LOG"; sleep 0.3; exit 3' INT; `
	for _, c := range []struct {
		script  string
		want    int
		wantLog string
	}{
		{trap, 3, "ready\ninterrupted\n"},
		{"", 128 + int(syscall.SIGINT), "ready\n"},
		{"trap 'exit 0' INT; ", 0, "ready\n"},
	} {
		started, logPath := shell(t, c.script+`echo ready >"$LOG"; while :; do sleep 0.02; done`)
		if err := started.command.Process.Signal(syscall.SIGINT); err != nil { // as the terminal does
			t.Fatal(err)
		}
		err := (&app{err: &bytes.Buffer{}}).finish(started)
		var status exitError
		if !errors.As(err, &status) || status.status != c.want {
			t.Errorf("%q: %v, expected status %d", c.script, err, c.want)
		}
		if text, _ := os.ReadFile(logPath); string(text) != c.wantLog {
			t.Errorf("%q: its log is %q", c.script, text)
		}
	}
}

// A command to whose socket the page cannot connect is ended, whether it handles the signal or not.
func TestCommandWithoutSocketIsEnded(t *testing.T) {
	folder := t.TempDir()
	notSeemalloc := filepath.Join(folder, "libseemalloc.so")
	if err := os.WriteFile(notSeemalloc, []byte{0}, 0o700); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(folder, "pid")
	a := &app{err: &bytes.Buffer{}}
	flags := webFlags{startTimeout: 5 * time.Second, run: runFlags{lib: notSeemalloc}}
	_, started, err := a.webOfCommand(flags, []string{"/bin/sh", "-c", "echo $$ >" + pidFile + "; exec 2>&-; while :; do sleep 0.02; done"}, &web.History{}, nil)
	if err == nil || started != nil || !strings.Contains(err.Error(), "does not answer after 5s") {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(pidFile)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) { // a zombie would still exist
		t.Errorf("process %d is still there: %v", pid, err)
	}
	stubborn, _ := shell(t, `trap '' TERM; echo ready >"$LOG"; while :; do sleep 0.02; done`)
	if stubborn.end(); stubborn.command.ProcessState == nil {
		t.Error("its status has not been collected")
	}
}
