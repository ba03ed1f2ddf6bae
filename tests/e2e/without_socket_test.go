package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// own compiles a C program into a directory that other users may read.
func own(t *testing.T, name, code string) string {
	t.Helper()
	folder := filepath.Join(work, t.Name())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(folder, name+".c"), filepath.Join(folder, name)
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", source, "-o", program, "-pthread"); err != nil {
		t.Fatal(err)
	}
	return program
}

// A process that was started under a seccomp filter has no helper thread and no socket: the tool reports this, and what
// to do.
func TestSandboxIsReported(t *testing.T) {
	need(t)
	launcher := own(t, "launcher", `#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char** words) {
  struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, allow};
  if (!strcmp(words[1], "sandbox") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 77;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
  execv(words[2], words + 2);
  return 1;
}`)
	for _, test := range []struct {
		name, conf, way, want string // "" expects an answer
	}{
		{"a sandbox", "at_start:1", "sandbox", "is in a sandbox (a seccomp filter, no_new_privs) and has no control socket: set sandbox:off"},
		{"a sandbox, sandbox:off", "at_start:1,sandbox:off", "sandbox", ""},
		{"a container's filter", "at_start:1", "container", ""},
		{"sandbox:on", "at_start:1,sandbox:on", "", "sandbox:on in SEEMALLOC_CONF excludes the system calls for it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := []string{leaky, "3"}
			if test.way != "" {
				command = append([]string{launcher, test.way}, command...)
			}
			if test.way == "container" && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			p := launch(t, []string{"LD_PRELOAD=" + library, "SEEMALLOC_CONF=" + test.conf}, command...)
			out, complaint, status := try(t, "get", p.pid, "sample")
			if test.want == "" && (status != 0 || out != "512K\n") || test.want != "" && (status != 1 || !strings.Contains(complaint, test.want)) {
				t.Errorf("status %d, %q %q", status, out, complaint)
			}
		})
	}
}

// A thread of the program with the name of our helper thread proves nothing about seemalloc.
func TestThreadWithTheHelpersName(t *testing.T) {
	need(t)
	program := own(t, "named", `#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static void* named(void* lock) {
  prctl(PR_SET_NAME, "seemalloc:30");
  pthread_mutex_unlock(lock);
  pause();
  return lock;
}
int main(void) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  pthread_mutex_lock(&lock);
  pthread_create(&thread, NULL, named, &lock);
  pthread_mutex_lock(&lock);
  puts("ready"), fflush(stdout);
  getchar();
}`)
	for _, test := range []struct {
		name string
		env  []string
		want string
	}{
		{"without seemalloc", nil, "does not run on seemalloc"},
		{"with a small heap", []string{"LD_PRELOAD=" + library}, "has no control socket yet"},
		{"with a socket", []string{"LD_PRELOAD=" + library, "SEEMALLOC_CONF=at_start:1"}, ""},
		{"with the helper beside", []string{"LD_PRELOAD=" + library, "SEEMALLOC_CONF=at_start:1,socket_dir:/dev/null"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := launch(t, test.env, program)
			out, complaint, status := try(t, "get", p.pid, "sample")
			if test.want == "" && (status != 0 || out != "512K\n") || test.want != "" && (status != 1 || !strings.Contains(complaint, test.want)) {
				t.Errorf("status %d, %q %q", status, out, complaint)
			}
		})
	}
}

// Where /proc shows no other user's processes the tool does not claim that there are none.
func TestHiddenProcessesAreReported(t *testing.T) {
	needRoot(t, "unshare", "mount", "setpriv")
	p := leak(t, 1)
	for _, hidepid := range []string{"1", "2", "0"} {
		script := "mount -t proc -o hidepid=" + hidepid + " proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\""
		hidden := hidepid != "0"
		said, _ := as(t, []string{"unshare", "-m", "sh", "-c", script, "sh"}, "get", p.pid, "sample")
		if strings.Contains(said, "is hidden from this user (/proc is mounted with hidepid): run as its user or as root") != hidden ||
			strings.Contains(said, "permission denied") == hidden {
			t.Errorf("hidepid=%s: %q", hidepid, said)
		}
		if said, status := as(t, []string{"unshare", "-m", "sh", "-c", script, "sh"}, "ps"); status != 0 ||
			strings.Contains(said, "/proc is mounted with hidepid: other users' processes are not listed") != hidden {
			t.Errorf("hidepid=%s: status %d, %q", hidepid, status, said)
		}
	}
}
