package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// elsewhere copies the library and the test program to a directory that other users may read, and that is not under
// /tmp.
func elsewhere(t *testing.T) (lib, program string) {
	t.Helper()
	folder, err := os.MkdirTemp("/var/tmp", "seemalloc-e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	lib, program = filepath.Join(folder, "libseemalloc.so"), filepath.Join(folder, "leaky")
	if err := build("cp", library, leaky, folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return lib, program
}

func needRoot(t *testing.T, programs ...string) {
	t.Helper()
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
	// Containers may forbid them.
	if out, err := exec.Command("unshare", "--mount", "--user", "true").CombinedOutput(); err != nil {
		t.Skipf("needs namespaces of its own: %s", out)
	}
}

// as runs the tool as the user that the prefix sets, from a place that every user can read.
func as(t *testing.T, prefix []string, args ...string) (out string, status int) {
	t.Helper()
	command := append(append(append([]string{}, prefix...), binary), args...)
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Env = "/", environment()
	said, _ := c.CombinedOutput()
	return string(said), c.ProcessState.ExitCode()
}

// A user that may not ptrace a process learns nothing from its socket, and cannot make it act.
func TestPermissionToConnect(t *testing.T) {
	needRoot(t, "setpriv", "unshare")
	lib, program := elsewhere(t)
	protected := filepath.Join(t.TempDir(), "protected")
	source := filepath.Join(t.TempDir(), "protected.c")
	code := `#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char** words) {
  if (!strcmp(words[1], "undumpable")) prctl(PR_SET_DUMPABLE, 0);
  if (!strcmp(words[1], "daemon") && (setgid(65534) || setuid(65534))) return 1;
  puts("ready"), fflush(stdout);
  for (char c; read(0, &c, 1) > 0;) {}
}`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", source, "-o", protected); err != nil {
		t.Fatal(err)
	}
	if err := build("cp", protected, filepath.Dir(program)); err != nil {
		t.Fatal(err)
	}
	protected = filepath.Join(filepath.Dir(program), "protected")

	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	other := []string{"setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"}
	capable := append(append([]string{}, nobody...), "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
	sandboxed := append(append([]string{}, nobody...), "unshare", "-Ur")
	on := []string{"env", "LD_PRELOAD=" + lib, "SEEMALLOC_CONF=at_start:1"}
	for _, test := range []struct {
		name    string
		command []string
		asker   []string
		may     bool
	}{
		{"the same user", append(nobody, append(on, program, "3")...), nobody, true},
		{"root", append(nobody, append(on, program, "3")...), nil, true},
		{"another user", append(nobody, append(on, program, "3")...), other, false},
		{"the same user in a user namespace", append(nobody, append(on, program, "3")...), sandboxed, false},
		{"capabilities that the asker lacks", append(capable, append(on, program, "3")...), nobody, false},
		{"capabilities that the asker has", append(capable, append(on, program, "3")...), capable, true},
		{"capabilities, root", append(capable, append(on, program, "3")...), nil, true},
		{"not dumpable", append(nobody, append(on, protected, "undumpable")...), nobody, false},
		{"not dumpable, root", append(nobody, append(on, protected, "undumpable")...), nil, true},
		{"a daemon that was root", append(on, protected, "daemon"), nobody, false},
		{"a daemon that was root, root", append(on, protected, "daemon"), nil, true},
		{"a user namespace of its own, root", append([]string{"unshare", "-Ur"}, append(on, program, "3")...), nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := launch(t, nil, test.command...)
			soon(t, "root is answered", func() bool {
				_, status := as(t, nil, "get", p.pid, "sample")
				return status == 0
			})
			file := filepath.Join("/var/tmp", "who-may-ask."+p.pid)
			for _, ask := range [][]string{{"get", p.pid, "sample"}, {"set", p.pid, "stack_depth=32"}, {"profile", p.pid, "-o", "-"}, {"stats", p.pid}, {"dump", p.pid, file}} {
				said, status := as(t, test.asker, ask...)
				if may := status == 0; may != test.may || (!may && !strings.Contains(said, "permission denied")) {
					t.Errorf("%v: status %d, %.300q", ask, status, said)
				}
			}
			if info, err := os.Stat(file); (err == nil) != test.may {
				t.Errorf("%v %v", info, err)
			}
			os.Remove(file)
			if depth := tool(t, "get", p.pid, "stack_depth"); (depth == "32\n") != test.may {
				t.Errorf("stack_depth is %s", depth)
			}
		})
	}
}

// A dump written for a client has the client's owner and permissions, not the process's: neither more nor less.
func TestDumpIsWrittenByTheClient(t *testing.T) {
	needRoot(t, "setpriv")
	lib, program := elsewhere(t)
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	p := launch(t, nil, append(nobody, "env", "LD_PRELOAD="+lib, "SEEMALLOC_CONF=at_start:1,sample:1", program, "3")...)
	soon(t, "root is answered", func() bool {
		_, status := as(t, nil, "get", p.pid, "sample")
		return status == 0
	})
	folder := filepath.Dir(program)
	ours, shared := filepath.Join(folder, "ours"), filepath.Join(folder, "shared")
	for path, mode := range map[string]os.FileMode{ours: 0o700, shared: 0o777 | os.ModeSticky} {
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	rooted := filepath.Join(shared, "root's")
	if err := os.WriteFile(rooted, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file string
		asker      []string
		owner      uint32
		may        bool
	}{
		{"root, where the process may not write", filepath.Join(ours, "a"), nil, 0, true},
		{"root, over a file of the process's user", filepath.Join(shared, "nobody's"), nil, 0, true},
		{"the process's user", filepath.Join(shared, "b"), nobody, 65534, true},
		{"the process's user, in root's folder", filepath.Join(ours, "c"), nobody, 0, false},
		{"the process's user, over root's file", rooted, nobody, 0, false},
		{"no folder", "/no/such/folder/x", nil, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.HasSuffix(test.file, "nobody's") {
				if err := build(append(nobody, "touch", test.file)...); err != nil {
					t.Fatal(err)
				}
			}
			said, status := as(t, test.asker, "dump", p.pid, test.file)
			info, err := os.Stat(test.file)
			if !test.may {
				if status != 1 || (!strings.Contains(said, "permission denied") && !strings.Contains(said, "no such file or folder")) {
					t.Errorf("status %d, %q", status, said)
				}
				if err == nil && info.Size() != int64(len("root's")) {
					t.Error("it has been written")
				}
				return
			}
			if status != 0 || said != test.file+"\n" || err != nil {
				t.Fatalf("status %d, %q, %v", status, said, err)
			}
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner != test.owner || info.Mode() != 0o666&^umask() {
				t.Errorf("it belongs to %d, with rights %v", owner, info.Mode())
			}
			if _, flat, _ := top(t, test.file); flat["leak_large"] != 3*128<<10 {
				t.Errorf("it is no profile of the program: %v", flat)
			}
		})
	}
	// The process itself writes to no path that a client names.
	file := filepath.Join(shared, "by-the-process")
	if answer, err := connect(t, p.pid).ask("dump " + file); err == nil || !strings.Contains(err.Error(), "expected dump without arguments") {
		t.Errorf("%q %v", answer, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the process has written to a path that a client named")
	}
}

func umask() os.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return os.FileMode(mask)
}

func TestDumpNames(t *testing.T) {
	need(t)
	p := leak(t, 3)
	folder := t.TempDir()
	file := filepath.Join(folder, "x-%p-%n-%%.pb")
	for n := 1; n <= 2; n++ {
		want := fmt.Sprintf("%s/x-%s-%d-%%.pb", folder, p.pid, n)
		if got := tool(t, "dump", p.pid, file); got != want+"\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSocketFileThatWasRemoved(t *testing.T) {
	need(t)
	p := leak(t, 3)
	for range 2 {
		if err := os.Remove(socketOf(p.pid)); err != nil {
			t.Fatal(err)
		}
		if got := tool(t, "get", p.pid, "sample"); got != "512K\n" {
			t.Errorf("%q", got)
		}
	}
}

// If /tmp cannot be used another directory is, also seen from outside the process's mount namespace; if none can, the
// cause is reported.
func TestSocketElsewhere(t *testing.T) {
	needRoot(t, "unshare", "mount")
	lib, program := elsewhere(t)
	folder := fmt.Sprintf("/tmp/seemalloc-%d", os.Geteuid())
	for _, test := range []struct{ name, mounts, conf, place, why string }{
		{"read-only", "mount -t tmpfs -o ro none /tmp", "", "/dev/shm/seemalloc-0", "read-only file system"},
		{"full", "mount -t tmpfs -o nr_inodes=2 none /tmp; mkdir -m 700 " + folder, "", "/dev/shm/seemalloc-0", "no space left"},
		{"another user's", "mount -t tmpfs none /tmp; mkdir -m 700 " + folder + "; chown 65534 " + folder, "", "/dev/shm/seemalloc-0", "it belongs to another user"},
		{"a link", "mount -t tmpfs none /tmp; ln -s /var " + folder, "", "/dev/shm/seemalloc-0", "it is a file or a link"},
		{"the session's", "mount -t tmpfs -o ro none /tmp; export XDG_RUNTIME_DIR=/var/tmp", "", "/var/tmp/seemalloc-0", "read-only file system"},
		{"nowhere", "mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /dev/shm", "", "", "in " + folder + ": read-only file system"},
		{"nowhere, another user's", "mount -t tmpfs none /tmp; mkdir -m 700 " + folder + "; chown 65534 " + folder + "; mount -t tmpfs -o ro none /dev/shm", "", "",
			"in " + folder + ": another user has created that folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := "unset XDG_RUNTIME_DIR; " + test.mounts + "; exec env LD_PRELOAD=" + lib + " SEEMALLOC_CONF=at_start:1 " + program + " 3"
			p := launch(t, nil, "unshare", "-m", "sh", "-ec", script)
			if test.place != "" {
				var stats struct {
					Socket struct {
						Path    string
						Refused []struct{ Directory, Reason string }
					}
				}
				parse(t, tool(t, "stats", p.pid, "--json"), &stats)
				if s := stats.Socket; s.Path != test.place+"/"+p.pid+".sock" || len(s.Refused) == 0 || s.Refused[0].Reason != test.why || s.Refused[0].Directory != folder {
					t.Errorf("%+v", s)
				}
				if text := tool(t, "stats", p.pid); !strings.Contains(text, "could not be made in "+folder+": "+test.why) {
					t.Errorf("%s", text)
				}
				return
			}
			complaint := ""
			soon(t, "the cause is told", func() bool {
				_, complaint, _ = try(t, "stats", p.pid)
				return strings.Contains(complaint, "could not be made "+test.why) && strings.Contains(complaint, "set socket_dir")
			})
		})
	}
}

// A socket in a directory of another user is not trusted.
func TestForeignSocketIsNotTrusted(t *testing.T) {
	needRoot(t, "unshare", "mount")
	lib, program := elsewhere(t)
	folder := t.TempDir()
	p := launch(t, nil, "unshare", "-m", "sh", "-ec", "mount --bind "+folder+" /tmp; mkdir -m 755 /tmp/seemalloc-0; chown 65534 /tmp/seemalloc-0; "+
		"mount -t tmpfs -o ro none /dev/shm; exec env LD_PRELOAD="+lib+" SEEMALLOC_CONF=at_start:1 XDG_RUNTIME_DIR= "+program+" 3")
	listener, err := net.Listen("unix", filepath.Join(folder, "seemalloc-0", p.pid+".sock"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			close(asked)
			conn.Close()
		}
	}()
	soon(t, "the folder is named", func() bool {
		_, complaint, status := try(t, "stats", p.pid)
		return status == 1 && strings.Contains(complaint, "another user has created that folder")
	})
	listener.Close()
	select {
	case <-asked:
		t.Error("the tool has asked there")
	default:
	}
}

// Reported at once, not after the time-out.
func TestStoppedProcessIsReported(t *testing.T) {
	need(t)
	p := leak(t, 1)
	_ = p.Process.Signal(syscall.SIGSTOP)
	_, complaint, status := try(t, "stats", p.pid, "--timeout", "10m")
	if status != 1 || !strings.Contains(complaint, "is stopped") || !strings.Contains(complaint, "kill -CONT "+p.pid) {
		t.Errorf("status %d, %q", status, complaint)
	}
	_ = p.Process.Signal(syscall.SIGCONT)
	if got := tool(t, "get", p.pid, "sample"); got != "512K\n" {
		t.Errorf("%q", got)
	}

	// Stopped while the tool waits: it is already connected.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, _ := strconv.Atoi(p.pid)
	helper := 0
	tasks, _ := filepath.Glob("/proc/" + p.pid + "/task/*/comm")
	for _, task := range tasks {
		if name, _ := os.ReadFile(task); string(name) == "seemalloc\n" {
			helper, _ = strconv.Atoi(filepath.Base(filepath.Dir(task)))
		}
	}
	if err := syscall.PtraceAttach(helper); err != nil {
		t.Skipf("ptrace of thread %d of %d: %v", helper, pid, err)
	}
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(helper, &state, syscall.WALL, nil); err != nil {
		t.Fatal(err)
	}
	_, complaint, status = try(t, "stats", p.pid, "--timeout", "10m")
	if status != 1 || !strings.Contains(complaint, "stopped by a debugger") {
		t.Errorf("status %d, %q", status, complaint)
	}
	if err := syscall.PtraceDetach(helper); err != nil {
		t.Error(err)
	}
}

// Idle connections and half lines do not shut out other clients, even if they fill all slots; nor does a client that
// does not read.
func TestClientsThatDisconnectEarly(t *testing.T) {
	need(t)
	p := leak(t, 3)
	for i := range 12 {
		conn, err := net.Dial("unix", socketOf(p.pid))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%3 != 0 {
			_, _ = io.WriteString(conn, strings.Repeat("ver", i))
		}
	}
	soon(t, "the tool is answered", func() bool {
		_, _, status := try(t, "get", p.pid, "sample")
		return status == 0
	})
}

// A pipe whose reader does not read ends a dump, not the program.
func TestDumpIntoAPipeWithoutReader(t *testing.T) {
	need(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := syscall.Open(pipe, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(reader)
	for err == nil {
		_, err = syscall.Write(reader, make([]byte, 4096))
	}
	p := leak(t, 3, "--conf", "dump_at_exit:"+pipe)
	p.stdin.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the program does not end")
	}
	if complaint := p.err.String(); !strings.Contains(complaint, "could not be written") && !t.Failed() {
		t.Errorf("%q", complaint)
	}
	p.err.Reset()
}

// Connections that are idle, half-sent or not read, of the process's owner, shut neither the owner nor root out; and
// root's own do not shut root out.
func TestStalledConnectionsDoNotShutOthersOut(t *testing.T) {
	const python = "/usr/bin/python3" // one that every user may run
	needRoot(t, "setpriv", python)
	lib, program := elsewhere(t)
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	const opener = `import os, socket, sys
path, pid, kind, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
kept = []
for i in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    kept.append(s)
    if kind == "half":
        s.sendall(b"pro")
    if kind in ("proven", "unread"):
        s.sendall(b"prove\n")
        answer = s.recv(100).decode()
        if answer.startswith("error"):  # all places are taken
            continue
        link = os.readlink("/proc/%s/fd/%s" % (pid, answer.split("\n")[1]))
        s.sendall(("prove " + link.split(":")[2].split(" ")[0] + "\n").encode())
        s.recv(100)
    if kind == "unread":
        s.sendall(b"options\n" * 200)
print("ready", flush=True)
sys.stdin.read()`
	for _, test := range []struct {
		kind  string
		count int
		user  []string
	}{
		{"idle", 8, nobody}, {"half", 8, nobody}, {"proven", 8, nobody}, {"unread", 8, nobody},
		{"idle", 60, nil}, {"proven", 10, nil}, {"unread", 10, nil},
	} {
		t.Run(fmt.Sprintf("%d %s, as %v", test.count, test.kind, test.user), func(t *testing.T) {
			p := launch(t, nil, append(nobody, "env", "LD_PRELOAD="+lib, "SEEMALLOC_CONF=at_start:1", program, "3")...)
			soon(t, "root is answered", func() bool {
				_, status := as(t, nil, "get", p.pid, "sample")
				return status == 0
			})
			socket := fmt.Sprintf("/tmp/seemalloc-65534/%s.sock", p.pid)
			launch(t, nil, append(append([]string{}, test.user...), python, "-c", opener, socket, p.pid, test.kind, strconv.Itoa(test.count))...)
			for _, user := range [][]string{nobody, nil, nobody} {
				if said, status := as(t, user, "get", p.pid, "sample"); status != 0 {
					t.Errorf("as %v: %s", user, said)
				}
			}
		})
	}
}
