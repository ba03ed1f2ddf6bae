package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

type stats struct {
	PID    int
	Memory struct {
		RSS, Live, Cached, Fragmentation, Metadata int64
		NotOurs                                    int64 `json:"not_ours"`
		LiveAllocated                              int64 `json:"live_allocated"`
	}
	Sampling struct {
		Interval, Samples int64
		Estimate          float64
		Stderr            float64 `json:"estimate_stderr"`
		Dropped, Broken   int64
	}
}

func statsOf(t *testing.T, pid string) (s stats) {
	t.Helper()
	parse(t, tool(t, "stats", pid, "--json"), &s)
	return s
}

// loaderStacks are stacks that end in the dynamic loader's first instructions, which are not marked as the end of a
// stack.
const loaderStacks = 2

func TestStatsReconcile(t *testing.T) {
	need(t)
	const scale = 200
	p := leak(t, scale, "--sample", "64K")
	s := statsOf(t, p.pid)
	m := s.Memory
	if sum := m.Live + m.Cached + m.Fragmentation + m.Metadata + m.NotOurs; sum != m.RSS {
		t.Errorf("RSS %d is not the sum of its parts, %d: %+v", m.RSS, sum, m)
	}
	for _, part := range []int64{m.Live, m.Cached, m.Fragmentation, m.Metadata, m.NotOurs} {
		if part < 0 {
			t.Errorf("a part is negative: %+v", m)
		}
	}
	exact := int64(0)
	for _, k := range knownAt(scale) {
		if k.kept {
			exact += k.count * k.size
		}
	}
	const table = 4 << 20 * 8 // the program's list of blocks, hardly touched
	if m.LiveAllocated < exact+table || m.LiveAllocated > exact+table+1<<20 {
		t.Errorf("handed out %d, the program holds %d", m.LiveAllocated, exact+table)
	}
	if m.Live < exact*95/100 || m.RSS < m.Live {
		t.Errorf("resident %d, live %d, the program has touched %d", m.RSS, m.Live, exact)
	}
	within(t, "estimate", int64(s.Sampling.Estimate), m.LiveAllocated, s.Sampling.Stderr)
	if s.Sampling.Interval != 64<<10 || s.Sampling.Samples == 0 || s.Sampling.Broken > loaderStacks || fmt.Sprint(s.PID) != p.pid {
		t.Errorf("%+v", s)
	}
	text := tool(t, "stats", p.pid)
	for _, word := range []string{"live ", "cached ", "fragmentation ", "metadata ", "not ours "} {
		if !strings.Contains(text, "\n  "+word) {
			t.Errorf("%q is not in\n%s", word, text)
		}
	}
	if strings.Contains(text, "difference") {
		t.Errorf("the parts do not add up:\n%s", text)
	}
}

func TestOptionsAndPurge(t *testing.T) {
	need(t)
	p := leak(t, 200, "--conf", "purge_delay:3600000")
	if got := tool(t, "get", p.pid, "sample"); got != "512K\n" {
		t.Errorf("sample is %q", got)
	}
	if got := tool(t, "set", p.pid, "sample=64K"); got != "sample=64K\n" {
		t.Errorf("set printed %q", got)
	}
	for _, bad := range []string{"sample=lots", "colour=red", "socket=0"} {
		if _, complaint, status := try(t, "set", p.pid, bad); status != 1 || strings.Count(complaint, "\n") != 1 {
			t.Errorf("set %s: status %d, %q", bad, status, complaint)
		}
	}
	if all := tool(t, "get", p.pid); !strings.Contains(strings.Join(strings.Fields(all), " "), "purge_delay 3600000 auto") {
		t.Errorf("get:\n%s", all)
	}
	p.tell(t, "f")
	before := statsOf(t, p.pid).Memory.RSS
	tool(t, "purge", p.pid)
	if after := statsOf(t, p.pid).Memory.RSS; after > before/2 {
		t.Errorf("RSS %d before the purge, %d after", before, after)
	}
	// A delay that was set explicitly does not adapt until auto is set again.
	for _, delay := range []string{"250", "1000", "auto"} {
		if got := tool(t, "set", p.pid, "delay="+delay); got != "delay="+delay+"\n" {
			t.Errorf("set delay=%s printed %q", delay, got)
		}
	}
	if _, complaint, _ := try(t, "set", p.pid, "delay=soon"); !strings.Contains(complaint, `"soon" for purge_delay, expected milliseconds from 0 to 3600000, or auto`) {
		t.Errorf("set delay=soon: %q", complaint)
	}
	for set, now := range map[string]string{"purge=eager": "purge=eager\n", "purge=0": "purge=never\n", "delay=5000": "delay=5000\n"} {
		if got := tool(t, "set", p.pid, set); got != now {
			t.Errorf("set %s printed %q", set, got)
		}
	}
}

func listed(t *testing.T, pid string) (found bool, socket string) {
	t.Helper()
	var rows []struct {
		PID    json.Number
		Socket string
	}
	parse(t, tool(t, "ps", "--json"), &rows)
	for _, row := range rows {
		if row.PID.String() == pid {
			return true, row.Socket
		}
	}
	return false, ""
}

func TestPsAndSockets(t *testing.T) {
	need(t)
	t.Run("a normal end takes the socket away", func(t *testing.T) {
		p := leak(t, 1)
		if found, socket := listed(t, p.pid); !found || socket != "open" {
			t.Errorf("found %v, socket %s", found, socket)
		}
		info, err := os.Stat(socketOf(p.pid))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v %v", info, err)
		}
		p.stdin.Close()
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(socketOf(p.pid)); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
		if _, complaint, status := try(t, "top", p.pid); status != 1 || !strings.Contains(complaint, "no process has the id "+p.pid) {
			t.Errorf("status %d, %q", status, complaint)
		}
	})
	t.Run("what a killed process leaves is removed", func(t *testing.T) {
		p := leak(t, 1)
		_ = p.Process.Signal(syscall.SIGKILL)
		_ = p.Wait()
		if _, err := os.Stat(socketOf(p.pid)); err != nil {
			t.Skip("nothing was left")
		}
		if found, _ := listed(t, p.pid); found {
			t.Error("a dead process is listed")
		}
		if _, err := os.Stat(socketOf(p.pid)); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	t.Run("a small heap without at_start has none yet", func(t *testing.T) {
		p := launch(t, []string{"LD_PRELOAD=" + library}, leaky, "0")
		if found, socket := listed(t, p.pid); !found || socket != "no socket" {
			t.Errorf("found %v, socket %s", found, socket)
		}
		if _, complaint, status := try(t, "stats", p.pid); status != 1 || !strings.Contains(complaint, "no control socket yet") || !strings.Contains(complaint, "at_start:1") {
			t.Errorf("status %d, %q", status, complaint)
		}
	})
	t.Run("turned off", func(t *testing.T) {
		p := leak(t, 1, "--conf", "socket:0")
		if _, complaint, status := try(t, "stats", p.pid); status != 1 || !strings.Contains(complaint, "turned off by socket:0") {
			t.Errorf("status %d, %q", status, complaint)
		}
	})
	t.Run("another folder", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil { // the library requires this mode
			t.Fatal(err)
		}
		p := leak(t, 1, "--conf", "socket_dir:"+dir)
		waitFor(t, filepath.Join(dir, p.pid+".sock"))
		if fmt.Sprint(statsOf(t, p.pid).PID) != p.pid {
			t.Error("another process answered")
		}
	})
}

func TestRunIsTransparent(t *testing.T) {
	need(t)
	out, complaint, status := try(t, "run", "--", "sh", "-c", "echo out; exit 3")
	if out != "out\n" || complaint != "" || status != 3 {
		t.Errorf("%q %q %d", out, complaint, status)
	}
	installed := filepath.Join(filepath.Dir(filepath.Dir(library)), "bin", "seemalloc")
	if _, err := os.Stat(installed); err == nil {
		c := exec.Command(installed, "run", "--", "printenv", "LD_PRELOAD")
		c.Env = os.Environ()
		if got, err := c.Output(); err != nil || string(got) != library+"\n" {
			t.Errorf("out/bin/seemalloc finds %q (%v)", got, err)
		}
	}
}

// Root may inspect any process; other users only their own.
func TestOtherUsers(t *testing.T) {
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become someone else")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	// Where the repository is in a directory closed to others, other users cannot load the library from there.
	copied := filepath.Join(work, "libseemalloc.so")
	if err := build("cp", library, copied); err != nil {
		t.Fatal(err)
	}
	other := []string{setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"}

	theirs := launch(t, nil, append(other, binary, "run", "--lib", copied, "--", leaky, "3")...)
	waitFor(t, filepath.Join("/tmp/seemalloc-65534", theirs.pid+".sock"))
	if fmt.Sprint(statsOf(t, theirs.pid).PID) != theirs.pid {
		t.Error("root did not reach another user's process")
	}
	if found, socket := listed(t, theirs.pid); !found || socket != "open" {
		t.Errorf("root's ps: found %v, socket %s", found, socket)
	}

	ours := leak(t, 1)
	command := append(other, binary, "top", ours.pid)
	c := exec.Command(command[0], command[1:]...)
	c.Dir = "/"
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "belongs to root: permission denied") {
		t.Errorf("another user: %v, %s", err, out)
	}
}
