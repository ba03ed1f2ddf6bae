package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dumped waits for a file matching the pattern; dumps appear atomically.
func dumped(t *testing.T, pattern string) string {
	t.Helper()
	var files []string
	soon(t, pattern+" appears", func() bool {
		files, _ = filepath.Glob(pattern)
		return len(files) != 0
	})
	return files[0]
}

// Each signal writes one more profile, and the program does not notice.
func TestDumpOnSignal(t *testing.T) {
	need(t)
	prefix := filepath.Join(t.TempDir(), "on-signal")
	p := leak(t, 3, "--sample", "1", "--conf", "dump_signal:12,dump_prefix:"+prefix)
	for _, count := range []string{"1", "2"} {
		if err := p.Process.Signal(syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		file := dumped(t, prefix+"."+p.pid+"."+count+".heap.pb")
		if _, flat, _ := top(t, file); flat["leak_large"] != 3*128<<10 {
			t.Errorf("%s: leak_large %d", file, flat["leak_large"])
		}
	}
	if left, _ := filepath.Glob(prefix + "*.tmp*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A profile that cannot be written is one line on standard error, and the program keeps its own exit status.
func TestDumpThatFails(t *testing.T) {
	need(t)
	for _, destination := range []string{"/nonexistent/folder/x.pb", "/proc/x.pb", strings.Repeat("a/", 120) + "x"} {
		p := leak(t, 3, "--conf", "dump_at_exit:"+destination)
		p.stdin.Close()
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		complaint := p.err.String()
		p.err.Reset()
		if strings.Count(complaint, "\n") != 1 || !strings.Contains(complaint, destination) {
			t.Errorf("%s: %q", destination, complaint)
		}
	}
}

// When the main thread ends before the others, the helper thread must not stay behind alone.
func TestHelperDoesNotDelayExit(t *testing.T) {
	need(t)
	source := filepath.Join(t.TempDir(), "main_ends.c")
	program := filepath.Join(t.TempDir(), "main_ends")
	code := `#include <pthread.h>
#include <unistd.h>
static void* work(void* unused) { usleep(100000); return unused; }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_detach(t); pthread_exit(0); }
`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", source, "-pthread", "-o", program); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, complaint, status := try(t, "run", "--", "timeout", "120", program)
	if out != "" || complaint != "" || status != 0 {
		t.Errorf("%q %q %d after %v", out, complaint, status, time.Since(began))
	}
}
