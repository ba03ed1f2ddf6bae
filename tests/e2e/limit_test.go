package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const limitBytes = 64 << 20

// limited runs testdata/limit.cc under the library with heap_limit and these further options.
func limited(t *testing.T, options string) (out, complaint string, signal syscall.Signal) {
	t.Helper()
	need(t)
	program := filepath.Join(t.TempDir(), "limit")
	if err := build("c++", "-O2", "-g", "testdata/limit.cc", "-o", program); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, strconv.Itoa(limitBytes))
	command.Env = environment("LD_PRELOAD="+library, "SEEMALLOC_CONF=heap_limit:64M"+options)
	out, complaint = finish(t, command, nil)
	if status := command.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		signal = status.Signal()
	}
	return out, complaint, signal
}

// At the limit each way to allocate fails as documented, and freed memory can be allocated again.
func TestHeapLimitFails(t *testing.T) {
	out, complaint, signal := limited(t, "")
	var want strings.Builder
	for _, size := range []string{"100", "10000", "300000", "3000000"} {
		want.WriteString("malloc(" + size + "): ENOMEM, most of it was had\nrealloc: kept\nnew: handler 1, bad_alloc\n" +
			"new(nothrow): null\nonce free: had\n")
	}
	if out != want.String() || complaint != "" || signal != 0 {
		t.Errorf("%s%s%v\ninstead of\n%s", out, complaint, signal, want.String())
	}
}

// With the action abort the first refusal ends the program: one line, and a profile that names the functions that hold
// the memory.
func TestHeapLimitAborts(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "at-limit")
	out, complaint, signal := limited(t, ",heap_limit_action:abort,sample:64K,dump_prefix:"+prefix)
	line := regexp.MustCompile(`^seemalloc: heap_limit of 67108864 bytes reached: (\d+) in use, \d+ more requested; heap profile: (\S+)\n$`)
	match := line.FindStringSubmatch(complaint)
	if match == nil || out != "" || signal != syscall.SIGABRT {
		t.Fatalf("%q %q %v", out, complaint, signal)
	}
	if used, _ := strconv.Atoi(match[1]); used < limitBytes*3/4 || used > limitBytes+1<<20 {
		t.Errorf("%d bytes in use", used)
	}
	if !strings.HasPrefix(match[2], prefix+".") {
		t.Errorf("the profile is %s", match[2])
	}
	if _, flat, _ := top(t, match[2]); flat["grow"] < limitBytes/2 {
		t.Errorf("grow holds %d", flat["grow"])
	}
}
