package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var dumpsProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(work, "dumps")
	return program, build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "testdata/dumps.cc", "-o", program)
})

// dumping runs testdata/dumps.cc in folder on a library (ours when preload is "") with these variables and commands. It
// must succeed.
func dumping(t *testing.T, folder, preload string, variables []string, commands ...string) (out, complaint string) {
	t.Helper()
	need(t)
	program, err := dumpsProgram()
	if err != nil {
		t.Fatal(err)
	}
	if preload == "" {
		preload = library
	}
	command := exec.Command(program, commands...)
	command.Env = environment(append(variables, "LD_PRELOAD="+preload)...)
	command.Dir = folder
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v %v: %v\n%s", variables, commands, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// named lists a directory, sorted by name, with "PID" in place of process ids.
func named(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	pid := regexp.MustCompile(`([._])[1-9]\d{2,}([._])`) // files are numbered from 1 or 0001; process ids wrap around at 32768
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".heap") || strings.HasSuffix(name, ".pb") || strings.Contains(name, ".tmp.") {
			if !regexp.MustCompile(`^[a-z]+\.\d{4}\.heap$`).MatchString(name) {
				name = pid.ReplaceAllString(name, "${1}PID$2")
			}
			names = append(names, name)
		}
	}
	return names
}

func numbered(first, last int, pattern string) (names []string) {
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf(pattern, i))
	}
	return names
}

func expectNames(t *testing.T, folder string, want ...string) {
	t.Helper()
	if got := named(t, folder); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("there are %v, expected %v", got, want)
	}
}

func conf(options string) []string { return []string{"SEEMALLOC_CONF=" + options} }

func TestDumpsByBytesAllocated(t *testing.T) {
	for _, helper := range []string{"helper:1", "helper:0"} {
		t.Run(helper, func(t *testing.T) {
			dir := t.TempDir()
			_, complaint := dumping(t, dir, "", conf(helper+",sample:1,dump_alloc_interval:4M,dump_prefix:d"),
				"churn:4", "await:1", "churn:4", "await:2", "churn:3", "churn:1", "await:3", "churn:2")
			if complaint != "" {
				t.Error(complaint)
			}
			expectNames(t, dir, numbered(1, 3, "d.PID.%d.heap.pb")...)
		})
	}
}

// 60 MiB more than ever before, in steps of 20: memory that is freed and allocated again is not growth.
func TestDumpsByGrowth(t *testing.T) {
	for _, helper := range []string{"helper:1", "helper:0"} {
		t.Run(helper, func(t *testing.T) {
			dir := t.TempDir()
			dumping(t, dir, "", conf(helper+",dump_growth_interval:20M,dump_prefix:d"),
				"keep:30", "await:1", "keep:20", "await:2", "keep:25", "await:3", "free", "keep:60", "sleep:60")
			expectNames(t, dir, numbered(1, 3, "d.PID.%d.heap.pb")...)
			files, _ := filepath.Glob(filepath.Join(dir, "d.*.3.heap.pb"))
			if len(files) == 1 {
				if _, flat, _ := top(t, files[0]); flat["keep"] < 40<<20 || flat["keep"] > 90<<20 {
					t.Errorf("keep holds %d", flat["keep"])
				}
			}
		})
	}
}

// Also while the process sleeps; names contain %t and %n.
func TestDumpsByTime(t *testing.T) {
	dir := t.TempDir()
	begin := time.Now()
	dumping(t, dir, "", conf("dump_time_interval:1,dump_prefix:d-%t"), "keep:1", "await:2", "sleep:600")
	took := time.Since(begin)
	files, _ := filepath.Glob(filepath.Join(dir, "d-*.heap.pb"))
	if len(files) < 2 || len(files) > int(took.Seconds()) {
		t.Fatalf("%v after %s", files, took)
	}
	seconds, _ := strconv.ParseInt(strings.Split(filepath.Base(files[0]), ".")[0][2:], 10, 64)
	if seconds < begin.Unix() || seconds > begin.Add(took).Unix()+1 {
		t.Errorf("%s was written between %s and %s later", files[0], begin, took)
	}
}

func TestDumpsOnFailure(t *testing.T) {
	dir := t.TempDir()
	_, complaint := dumping(t, dir, "", conf("dump_on_failure:1,sample:64K,dump_prefix:d,verbose:1"), "keep:10", "fail", "fail")
	expectNames(t, dir, "d.PID.1.heap.pb")
	if !regexp.MustCompile(`^seemalloc: heap profile d\.\d+\.1\.heap\.pb \(dump_on_failure\)\n$`).MatchString(complaint) {
		t.Errorf("%q", complaint)
	}
}

// A ring of the last three; dumps that were requested by name, or written at exit, are not in it.
func TestDumpsAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	dumping(t, dir, "", conf("sample:1,dump_alloc_interval:2M,dump_keep:3,dump_signal:12,dump_final:1,dump_at_exit:end.pb,dump_prefix:d"),
		"signal:12", "await:1", "until:11")
	names := named(t, dir)
	if len(names) != 1+3+1+1 || names[0] != "d.PID.1.heap.pb" {
		t.Errorf("there are %v", names)
	}
}

func TestDumpOverTheSocket(t *testing.T) {
	need(t)
	dir := t.TempDir()
	p := leak(t, 3, "--sample", "1", "--conf", "dump_prefix:"+filepath.Join(dir, "d"))
	for i, args := range [][]string{{}, {filepath.Join(dir, "by-name-%p")}} {
		path := strings.TrimSpace(tool(t, append([]string{"dump", p.pid}, args...)...))
		want := []string{filepath.Join(dir, "d."+p.pid+".1.heap.pb"), filepath.Join(dir, "by-name-"+p.pid)}[i]
		if path != want {
			t.Errorf("it says %s, not %s", path, want)
		}
		if _, flat, _ := top(t, path); flat["leak_large"] != 3*128<<10 {
			t.Errorf("%s: leak_large %d", path, flat["leak_large"])
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, complaint, status := try(t, "dump", p.pid)
	if status != 1 || !strings.Contains(complaint, "d."+p.pid) || !strings.Contains(complaint, "could not be written (errno 2)") {
		t.Errorf("status %d, %q", status, complaint)
	}
	var s struct {
		Dumps struct{ Written, Failed, Removed int64 }
	}
	parse(t, tool(t, "stats", p.pid, "--json"), &s)
	if s.Dumps.Written != 1 || s.Dumps.Failed != 1 {
		t.Errorf("%+v", s.Dumps)
	}
	if text := tool(t, "stats", p.pid); !strings.Contains(text, "Profiles written to files: 1; could not be written: 1 (last: no such file or directory)") {
		t.Errorf("not in\n%s", text)
	}
}

// full is a file system with hardly any space; read-only where it cannot be mounted.
func full(t *testing.T) (dir string, errno syscall.Errno) {
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("there is room: %v", err)
	}
	return dir, syscall.ENOSPC
}

func readOnly(t *testing.T) (dir string, errno syscall.Errno) {
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return dir, syscall.EROFS
}

// A disk that is full or read-only: one warning, a count, no file left behind, and the profile is available over the
// socket.
func TestDumpsWithoutADisk(t *testing.T) {
	for name, disk := range map[string]func(*testing.T) (string, syscall.Errno){"full": full, "read-only": readOnly} {
		t.Run(name, func(t *testing.T) {
			need(t)
			dir, errno := disk(t)
			prefix := filepath.Join(dir, "d")
			p := leak(t, 3, "--sample", "1", "--conf", "dump_alloc_interval:256K,dump_keep:2,dump_prefix:"+prefix)
			p.tell(t, "m")
			var s struct {
				Dumps struct {
					Written, Failed int64
					LastErrno       int64 `json:"last_errno"`
				}
			}
			soon(t, "a profile fails", func() bool { // the helper thread writes concurrently
				parse(t, tool(t, "stats", p.pid, "--json"), &s)
				return s.Dumps.Failed != 0
			})
			if s.Dumps.Written != 0 || s.Dumps.LastErrno != int64(errno) {
				t.Errorf("%+v", s.Dumps)
			}
			file := filepath.Join(t.TempDir(), "over-the-socket.pb.gz")
			tool(t, "profile", p.pid, "-o", file)
			if _, flat, _ := top(t, file); flat["leak_large"] != 6*128<<10 {
				t.Errorf("leak_large %d", flat["leak_large"])
			}
			p.stdin.Close()
			if err := p.Wait(); err != nil {
				t.Error(err)
			}
			complaint := p.err.String()
			p.err.Reset()
			want := fmt.Sprintf("^seemalloc: heap profile %s\\.%s\\.1\\.heap\\.pb could not be written \\(errno %d\\)\n$", prefix, p.pid, int(errno))
			if !regexp.MustCompile(want).MatchString(complaint) {
				t.Errorf("%q", complaint)
			}
			expectNames(t, dir)
		})
	}
}
