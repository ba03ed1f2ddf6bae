package compare

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell runs a script with the C library's allocator.
func shell(t *testing.T, ctx context.Context, script string, more func(*Command)) (Run, error) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	errs, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	command := &Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()}
	if more != nil {
		more(command)
	}
	return command.Run(ctx, Allocator{Name: Glibc}, null, errs)
}

// seen runs the script until its memory has been read, which may take several attempts on a busy machine.
func seen(t *testing.T, script string, least float64) (run Run, err error) {
	t.Helper()
	for range 20 {
		if run, err = shell(t, context.Background(), script, nil); err != nil || run.Values["final_rss"] >= least {
			break
		}
	}
	return run, err
}

// server runs the script as a server that is ended. It increases the time until the script is ready to be ended.
func server(t *testing.T, script string, ready func(error) bool) (run Run, err error) {
	t.Helper()
	for most := time.Second; most < 5*time.Minute; most *= 2 {
		if run, err = shell(t, context.Background(), script, func(c *Command) { c.For = most }); ready(err) {
			break
		}
	}
	return run, err
}

func TestRun(t *testing.T) {
	run, err := seen(t, "echo first >&2; echo last >&2; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.15; exit 4", 300<<10)
	if err != nil || run.ExitStatus != "exit 4" || run.stderrTail != "last" || run.Allocator != Glibc {
		t.Fatalf("%+v, %v", run, err)
	}
	v := run.Values
	if v["wall_s"] < 0.15 || v["cpu_s"] <= 0 || v["cpu_s"] > v["wall_s"] || v["minor_faults"] < 10 || v["switches"] < 1 {
		t.Errorf("%+v", v)
	}
	// A shell is smaller than this test process, so the kernel's value for it must not be used.
	if v["peak_rss"] < 500<<10 || v["peak_rss"] > 8<<20 || v["final_rss"] > v["peak_rss"] || v["final_rss"] < 300<<10 {
		t.Errorf("peak %g, final %g", v["peak_rss"], v["final_rss"])
	}
}

func TestRunKilled(t *testing.T) {
	if run, err := shell(t, context.Background(), "kill -SEGV $$", nil); err != nil || !strings.Contains(run.ExitStatus, "signal 11") {
		t.Errorf("%+v, %v", run, err)
	}
}

// The memory of a program that ends immediately is not reported, because a value from its first millisecond would be
// wrong.
func TestTooShortRun(t *testing.T) {
	run, err := shell(t, context.Background(), "exit 0", nil)
	if _, ok := run.Values["final_rss"]; err != nil || ok && run.Values["wall_s"] < readable.Seconds() {
		t.Errorf("%+v, %v", run, err)
	}
}

// gone waits for the end of the process. The file holds its id.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || pid == 0 {
			return
		}
	}
	t.Errorf("pid %d still runs", pid)
}

func TestRunKillsRemainingProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if _, err := shell(t, context.Background(), "sleep 600 & echo $! >"+file, nil); err != nil {
		t.Fatal(err)
	}
	gone(t, file)
}

func TestRunInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for text := []byte(nil); !strings.HasSuffix(string(text), "\n"); time.Sleep(10 * time.Millisecond) {
			text, _ = os.ReadFile(file)
		}
		cancel()
	}()
	began := time.Now()
	_, err := shell(t, ctx, "sleep 600 & echo $! >"+file+"; wait", nil)
	if !errors.Is(err, context.Canceled) || time.Since(began) > 9*time.Minute {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	gone(t, file)
}

func TestRunMemoryOfTheLargestProcess(t *testing.T) {
	run, err := seen(t, `sh -c 'x=$(head -c 30000000 /dev/zero | tr "\0" x); sleep 2'; true`, 25e6)
	if err != nil || run.ExitStatus != "exit 0" {
		t.Fatalf("%+v, %v", run, err)
	}
	if run.Values["peak_rss"] < 25e6 || run.Values["final_rss"] < 25e6 {
		t.Errorf("%+v", run.Values)
	}
}

func TestServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	wasAsked := func(error) bool { _, missing := os.Stat(file); return missing == nil }
	run, err := server(t, "trap 'echo >"+file+"; exit 0' TERM; while :; do sleep 0.05; done", wasAsked)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := run.Values["wall_s"]; ok || run.Values["peak_rss"] == 0 || run.Values["minor_faults"] == 0 {
		t.Errorf("%+v", run.Values)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("it was not asked to end")
	}
}

func TestServerThatEnds(t *testing.T) {
	_, err := shell(t, context.Background(), "echo no port >&2; exit 3", func(c *Command) { c.For = 10 * time.Minute })
	var failed Failed
	if !errors.As(err, &failed) || !strings.Contains(failed.Reason, "it ended on its own after") || !strings.HasSuffix(failed.Reason, "exit 3: no port") {
		t.Errorf("%v", err)
	}
}

func TestServerThatCrashesAtTheEnd(t *testing.T) {
	crashed := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "after SIGTERM it was killed by signal 6")
	}
	_, err := server(t, "trap 'kill -ABRT $$' TERM; while :; do sleep 0.05; done", crashed)
	if !crashed(err) {
		t.Errorf("%v", err)
	}
}

func TestLoad(t *testing.T) {
	server := func(load string, most time.Duration) (Run, error) {
		return shell(t, context.Background(), "while :; do sleep 0.05; done", func(c *Command) {
			c.Load, c.UpAfter, c.For = load, 50*time.Millisecond, most
		})
	}
	run, err := server("sleep 0.3", 0)
	if v := run.Values["load_s"]; err != nil || v < 0.3 {
		t.Errorf("%+v, %v", run, err)
	}
	for _, test := range []struct {
		load, reason string
		most         time.Duration
	}{{"exit 7", "the load failed: exit 7", 10 * time.Minute}, {"sleep 600", "the load had not finished after 200ms", 200 * time.Millisecond}} {
		if _, err := server(test.load, test.most); err == nil || !strings.HasPrefix(err.Error(), test.reason) {
			t.Errorf("%s: %v", test.load, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	_, err := shell(t, context.Background(), "", func(c *Command) { c.Path = "/no/such/program" })
	var failed Failed
	if !errors.Is(err, syscall.ENOENT) || errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
}

func TestLoads(t *testing.T) {
	if err := Loads(context.Background(), "", nil); err != nil {
		t.Error(err)
	}
	if err := Loads(context.Background(), "/nowhere/libx.so", os.Environ()); err == nil || !strings.Contains(err.Error(), "/nowhere/libx.so does not load") {
		t.Errorf("%v", err)
	}
}

func TestLibraryObservation(t *testing.T) {
	m := &member{pid: os.Getpid(), loaded: Unknown}
	seen := func(library string) Tristate {
		(&tree{library: library}).readMaps(m)
		return m.loaded
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := seen(self); got != Yes {
		t.Errorf("this program's own file: %s", got)
	}
	// The process has executed another program by now.
	for range loaderLimit {
		seen("/nowhere/libx.so")
	}
	if m.loaded != No {
		t.Errorf("no such library: %s", m.loaded)
	}
	gone := &member{pid: 1 << 30, loaded: Unknown}
	if (&tree{library: self}).readMaps(gone); gone.loaded != Unknown {
		t.Errorf("no such process: %s", gone.loaded)
	}
}

func TestStatic(t *testing.T) {
	if static("/bin/sh") || static("/etc/passwd") || static("/nowhere") {
		t.Error("called static")
	}
}
