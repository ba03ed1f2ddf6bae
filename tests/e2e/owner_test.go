package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// firstOwner waits until a process has at least this much memory. It returns the names in the order of `top`, and checks that the totals with and without --raw are the same.
func firstOwner(t *testing.T, pid string, least int64) (names []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		report, _, _ := top(t, pid)
		if report.Total >= least {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes in use, expected %d", report.Total, least)
		}
	}
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	tool(t, "profile", pid, "-o", file) // later than the report, so the rest of the checks read the file
	report, _, _ := top(t, file)
	raw, _, _ := top(t, file, "--raw")
	sum := func(r topReport) (flat int64) {
		for _, f := range r.Functions {
			flat += f.Flat
		}
		return flat
	}
	if report.Total != raw.Total || sum(report) != report.Total || sum(raw) != raw.Total || report.Error != raw.Error {
		t.Errorf("total %d ± %g, sum %d; with --raw %d ± %g, sum %d", report.Total, report.Error, sum(report), raw.Total, raw.Error, sum(raw))
	}
	for _, f := range report.Functions {
		names = append(names, f.Name)
	}
	if len(names) == 0 || names[0] == raw.Functions[0].Name {
		t.Errorf("with --raw the first function is the same: %s", raw.Functions[0].Name)
	}
	return names
}

func TestOwnerInCxx(t *testing.T) {
	need(t)
	program := filepath.Join(t.TempDir(), "owners")
	if err := build("c++", "-std=c++20", "-O1", "-g", "-pthread", "testdata/owners.cc", "-o", program); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, binary, "run", "--sample", "16K", "--", program)
	waitFor(t, socketOf(p.pid))
	names := firstOwner(t, p.pid, 12<<20)
	if names[0] != "make_session" {
		t.Errorf("%v", names[:min(5, len(names))])
	}
	for _, name := range names {
		if strings.HasPrefix(name, "std::") && strings.Contains(name, "thread") || name == "start_thread" || name == "_start" {
			t.Errorf("%s starts the program or a thread", name)
		}
	}
	if out := tool(t, "top", p.pid); !strings.Contains(out, "Passed over: C++ library") {
		t.Errorf("%s", out)
	}
	// All functions of the wrapped request are shown if they are asked for.
	if out := tool(t, "peek", p.pid, "^std::vector"); !strings.Contains(out, "Stacks are shown as they are") || !strings.Contains(out, "std::vector") {
		t.Errorf("%s", out)
	}
	// By its name, which two processes have in the end.
	if out := tool(t, "top", "owners"); !strings.Contains(out, "make_session") {
		t.Errorf("%s", out)
	}
	if out := tool(t, "top", program); !strings.Contains(out, "make_session") {
		t.Errorf("%s", out)
	}
	second := launch(t, nil, binary, "run", "--sample", "16K", "--", program)
	waitFor(t, socketOf(second.pid))
	out, complaint, status := try(t, "top", "owners")
	if status != 1 || out != "" || !strings.Contains(complaint, "2 processes on seemalloc are called or run owners") || !strings.Contains(complaint, p.pid+" ") || !strings.Contains(complaint, second.pid+" ") {
		t.Errorf("status %d, %s\n%s", status, out, complaint)
	}
}

func TestOwnerInRust(t *testing.T) {
	need(t)
	if _, err := exec.LookPath("rustc"); err != nil {
		t.Skip("no rustc")
	}
	program := filepath.Join(t.TempDir(), "sessions")
	if err := build("rustc", "-O", "-g", "testdata/sessions.rs", "-o", program); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, binary, "run", "--sample", "16K", "--", program)
	waitFor(t, socketOf(p.pid))
	names := firstOwner(t, p.pid, 12<<20)
	if names[0] != "sessions::make_session" || names[1] != "sessions::Cache::insert" {
		t.Errorf("%v", names[:min(5, len(names))])
	}
}

func TestOwnerInPython(t *testing.T) {
	eachPython(t, func(t *testing.T, python string) {
		script := filepath.Join(t.TempDir(), "sessions.py")
		text := `import sys, json
def keep(store, i):
    store[i] = json.loads('{"user": "%s", "data": [%s]}' % ("x" * 200, ",".join(str(1000 + n) for n in range(200))))
store = {}
for i in range(4000):
    keep(store, i)
print("ready", flush=True)
sys.stdin.read()
`
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := launch(t, nil, binary, "run", "--sample", "16K", "--conf", "at_start:1", "--", python, script)
		waitFor(t, socketOf(p.pid))
		names := firstOwner(t, p.pid, 4<<20)
		if names[0] != "keep" {
			t.Errorf("%v", names[:min(5, len(names))])
		}
	})
}

func TestOwnerInRedis(t *testing.T) {
	need(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server (Debian: redis-server)")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := exec.Command(binary, "run", "--sample", "16K", "--conf", "at_start:1", "--", "redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
	server.Env = environment()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	pid := strconv.Itoa(server.Process.Pid)
	waitFor(t, socketOf(pid))
	waitFor(t, socket)
	fillRedis(t, socket)
	names := firstOwner(t, pid, 2<<20)
	for _, name := range names[:min(10, len(names))] {
		if strings.HasPrefix(name, "z") && strings.Contains(name, "alloc") || strings.Contains(name, "sdsnew") {
			t.Errorf("%s is a wrapper: %v", name, names[:10])
		}
	}
	if out := tool(t, "top", pid); !strings.Contains(out, "wrappers of malloc (z") {
		t.Errorf("%s", out)
	}
}

// fillRedis stores strings, hashes and sorted sets of many sizes.
func fillRedis(t *testing.T, socket string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const commands = 9000
	go func() {
		to := bufio.NewWriter(conn)
		for i := range commands / 3 {
			fmt.Fprintf(to, "SET string:%d %s\r\n", i, strings.Repeat("x", 20+i%700))
			fmt.Fprintf(to, "HSET hash:%d field%d %s\r\n", i%50, i, strings.Repeat("y", 1+i%200))
			fmt.Fprintf(to, "ZADD sorted %d member%d\r\n", i, i)
		}
		to.Flush()
	}()
	from := bufio.NewReader(conn)
	for range commands {
		if line, err := from.ReadString('\n'); err != nil || strings.HasPrefix(line, "-") {
			t.Fatal(line, err)
		}
	}
}
