package attach_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
)

func TestCall(t *testing.T) {
	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	client, err := attach.DialSocket(server.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// Several requests on one connection, one of which fails.
	if got, err := client.Call("ping"); err != nil || string(got) != "pong" {
		t.Errorf("ping: %q %v", got, err)
	}
	if _, err := client.Call("get", "colour"); err == nil || !strings.Contains(err.Error(), "unknown option colour") {
		t.Errorf("get colour: %v", err)
	}
	stats, err := attach.FetchStats(client)
	if err != nil {
		t.Fatal(err)
	}
	m := stats.Memory
	if m.RSS != m.Live+m.Cached+m.Fragmentation+m.Metadata+m.Foreign || m.RSS != 100<<20 {
		t.Errorf("memory %+v", m)
	}
	// The JSON is the library's own, including the fields that this tool does not know.
	var said, passed any
	again, err := json.Marshal(map[string]any{"stats": stats})
	if err != nil || json.Unmarshal([]byte(`{"stats":`+fake.Stats+`}`), &said) != nil || json.Unmarshal(again, &passed) != nil || !reflect.DeepEqual(said, passed) {
		t.Errorf("%v: passed on as %s", err, again)
	}
	if _, err := client.Call("get", "a\nset b c"); err == nil {
		t.Error("a line break was sent")
	}
	if client.PeerPID() != os.Getpid() {
		t.Errorf("peer %d", client.PeerPID())
	}
}

func TestBrokenServers(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"closed", "", "without answering"},
		{"cut short", "ok 100\nabc", "is incomplete (3 of 100 bytes)"},
		{"nothing of it", "ok 100\n", "is incomplete (0 of 100 bytes)"},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak this protocol"},
		{"negative", "ok -1\n", "does not speak this protocol"},
		{"too long", "ok 99999999999999\n", "does not speak this protocol"},
		{"refused", "error not permitted\n", "not permitted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
			server.Raw["stats"] = test.raw
			client, err := attach.DialSocket(server.Path, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = attach.FetchStats(client)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want …%s…", err, test.want)
			}
		})
	}
}

func TestSilentServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := attach.DialSocket(path, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Call("ping"); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
}

// The process that created the listener has ended and left it to another process. Its pid may belong to any process
// now.
func TestListenerOfAProcessThatHasEnded(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	path := filepath.Join(t.TempDir(), "s")
	const code = `import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
if os.fork(): os._exit(0)
while True:
    c, _ = s.accept(); f = c.makefile("rb")
    for line in f:
        c.sendall(b"ok 1\n0" if line == b"prove\n" else b"error permission denied: prove first\n")`
	server := exec.Command("python3", "-c", code, path)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL) })
	client, err := attach.DialSocket(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if client.PeerPID() != server.Process.Pid {
		t.Fatalf("peer %d, not %d", client.PeerPID(), server.Process.Pid)
	}
	var version unix.Utsname
	_ = unix.Uname(&version)
	var major, minor int
	_, _ = fmt.Sscanf(unix.ByteSliceToString(version.Release[:]), "%d.%d", &major, &minor)
	if major < 6 || major == 6 && minor < 5 {
		t.Skip("needs Linux 6.5")
	}
	if _, err := client.Call("ping"); err == nil || !strings.Contains(err.Error(), "has ended, and another process listens on it") {
		t.Errorf("got %v", err)
	}
}

func TestRemoveStaleSockets(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string, keep bool) string {
		path := filepath.Join(dir, name)
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		if keep {
			t.Cleanup(func() { listener.Close() })
		} else {
			listener.Close()
		}
		return path
	}
	const unusedPID = "999999999" // above any pid_max
	gone := listen(unusedPID+".sock", false)
	unfinished := listen(unusedPID+".soc~", false)
	answering := listen("999999998.sock", true) // of a process in another pid namespace
	living := listen("1.sock", false)           // pid 1 exists, so the socket must not be removed
	other := filepath.Join(dir, "999999997.sock")
	if err := os.WriteFile(other, nil, 0o600); err != nil { // not a socket
		t.Fatal(err)
	}
	if n := attach.RemoveStale(dir); n != 2 {
		t.Errorf("removed %d", n)
	}
	for path, want := range map[string]bool{gone: false, unfinished: false, answering: true, living: true, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	_ = os.Symlink(dir, link)
	listen(unusedPID+".sock", false)
	if n := attach.RemoveStale(link); n != 0 {
		t.Error("followed a symbolic link")
	}
	if n := attach.RemoveStale("/nowhere"); n != 0 {
		t.Error("removed something in a folder that is not there")
	}
}

// The test process plays a program that is linked with the allocator.
func TestFindsByPID(t *testing.T) {
	self, err := attach.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fake.Start(t, self.SocketPaths()[0])
	client, err := attach.Dial(self, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if !isNamed(self) {
		t.Error("not found by its name")
	}
	for _, found := range attach.Scan(time.Minute) {
		if found.PID == os.Getpid() {
			if found.Socket != attach.SocketOpen || found.Stats == nil || found.RSS() == 0 || found.Uptime() <= 0 {
				t.Errorf("found %+v", found)
			}
			return
		}
	}
	t.Error("not found by Scan")
}

// isNamed reports whether the process is found by its name, and by its program file.
func isNamed(p *attach.Process) bool {
	isSame := func(found *attach.Process) bool { return found.PID == p.PID }
	return slices.ContainsFunc(attach.Named(p.Name), isSame) && slices.ContainsFunc(attach.Running("/proc/self/exe"), isSame)
}

func TestFindErrors(t *testing.T) {
	if _, err := attach.Find(999999999); err == nil || !strings.Contains(err.Error(), "999999999") {
		t.Errorf("got %v", err)
	}
	self, err := attach.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	expect := func() {
		t.Helper()
		if _, err := attach.Dial(self, time.Minute); err == nil || !strings.Contains(err.Error(), "does not run on seemalloc") {
			t.Errorf("got %v", err)
		}
	}
	expect()
	// A leftover of an earlier process with the same pid.
	path := self.SocketPaths()[0]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	defer os.Remove(path)
	expect()
	if isNamed(self) {
		t.Error("an ended process's socket counts as its own")
	}
}

// The socket file exists before its process listens.
func TestWaitForAStartingProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = unix.Listen(fd, 1) })
	client, err := attach.DialSocket(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}

// A late answer is not taken for the answer to the next command.
func TestLateAnswersAreIgnored(t *testing.T) {
	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	late := make(chan struct{})
	server.Answers["ping"] = func([]string) string { <-late; return "late" }
	client, err := attach.DialSocket(server.Path, 3*time.Second) // the refusal arrives in time even on a busy machine
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Call("get", "colour"); err == nil || client.Lost() != nil {
		t.Errorf("a refusal: %v, lost %v", err, client.Lost())
	}
	_, silent := client.Call("ping")
	close(late)
	time.Sleep(100 * time.Millisecond)
	if got, err := client.Call("version"); err == nil || silent == nil || client.Lost() == nil || err.Error() != silent.Error() {
		t.Errorf("after %v: %q, %v", silent, got, err)
	}
}

func TestRedialersReportExit(t *testing.T) {
	sleeper := exec.Command("sleep", "3600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := attach.Find(sleeper.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	again := attach.Redialer(p, time.Minute)
	if _, err := again(); err == nil || errors.Is(err, attach.ErrExited) {
		t.Errorf("one that runs, without a socket: %v", err)
	}
	_ = sleeper.Process.Kill()
	for range 6000 { // a zombie, then no process
		if _, err = again(); errors.Is(err, attach.ErrExited) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !errors.Is(err, attach.ErrExited) {
		t.Errorf("killed: %v", err)
	}
	_ = sleeper.Wait()
	if _, err := again(); !errors.Is(err, attach.ErrExited) {
		t.Errorf("ended: %v", err)
	}

	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	bySocket := attach.SocketRedialer(server.Path, os.Getpid(), time.Minute)
	client, err := bySocket()
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := attach.SocketRedialer(server.Path, os.Getpid()+1, time.Minute)(); !errors.Is(err, attach.ErrExited) {
		t.Errorf("another process listens: %v", err)
	}
	_ = os.Remove(server.Path)
	if _, err := bySocket(); !errors.Is(err, attach.ErrExited) {
		t.Errorf("no socket: %v", err)
	}
}

// A process whose connections are all busy answers so and closes the connection: the tool connects again for a while.
func TestCrowdedSocketIsTriedAgain(t *testing.T) {
	for _, test := range []struct {
		refusals int
		want     string
	}{{3, ""}, {1 << 30, "all connections of its control socket are busy"}} {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for accepted := 0; ; accepted++ {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				if accepted >= test.refusals {
					if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
						_, _ = io.WriteString(conn, "ok 4\npong")
					}
				} else {
					_, _ = io.WriteString(conn, "error too many connections\n")
				}
				conn.Close()
			}
		}()
		timeout := time.Minute
		if test.want != "" {
			timeout = time.Second
		}
		client, err := attach.DialSocket(path, timeout)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		switch pong, err := client.Call("ping"); {
		case test.want == "" && (err != nil || string(pong) != "pong"):
			t.Errorf("after %d refusals: %q, %v", test.refusals, pong, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("refused all the time: %v", err)
		}
	}
}
