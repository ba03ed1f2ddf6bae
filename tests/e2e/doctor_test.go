package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// diagnosis is the part of `doctor --json` that the tests read.
type diagnosis struct {
	PID      int
	Status   string
	Seconds  float64
	Findings []struct {
		ID, Severity, Title, Figure, Why string
		Value                            float64
		Change                           []string
		Sites                            []struct {
			Place string
			Stack []string
			Bytes float64
			Share float64
		}
	}
	Looks    []struct{ ID, Seen, Missing string } `json:"looked_at"`
	Mappings struct{ Count, Limit int64 }
}

func (d diagnosis) ids() string {
	var ids []string
	for _, finding := range d.Findings {
		ids = append(ids, finding.ID+" ("+finding.Figure+")")
	}
	return strings.Join(ids, ", ")
}

// isOnly tells whether this is the only finding.
func (d diagnosis) isOnly(id string) bool { return len(d.Findings) == 1 && d.Findings[0].ID == id }

const foundStatus = 3

// examine runs doctor on a process; its exit status must tell whether something was found.
func examine(t *testing.T, pid string, lasts string) (d diagnosis) {
	t.Helper()
	out, complaint, status := try(t, "doctor", pid, "--for", lasts, "--json")
	if complaint != "" || status != 0 && status != foundStatus {
		t.Fatalf("status %d, %s", status, complaint)
	}
	parse(t, out, &d)
	if (status == foundStatus) != (len(d.Findings) > 0) {
		t.Errorf("status %d with %d findings", status, len(d.Findings))
	}
	for _, look := range d.Looks {
		if look.Missing != "" {
			t.Errorf("%s: %s", look.ID, look.Missing)
		}
	}
	if len(d.Looks) != 11 {
		t.Errorf("%d looks", len(d.Looks))
	}
	return d
}

// tries is the number of attempts: on a busy machine the program may hardly have run, or be delayed so that it shows
// other problems.
const tries = 8

// examineFor repeats the examination while it finds anything but this finding alone.
func examineFor(t *testing.T, pid, id, lasts string) (d diagnosis) {
	t.Helper()
	return examineEach(t, func() string { return pid }, id, lasts)
}

// examineEach does so with another process each time: next returns its pid.
func examineEach(t *testing.T, next func() string, id, lasts string) (d diagnosis) {
	t.Helper()
	for look := 1; look <= tries; look++ {
		d = examine(t, next(), lasts)
		if d.isOnly(id) {
			t.Logf("found at look %d", look)
			break
		}
		t.Logf("look %d: found %q instead of %s", look, d.ids(), id)
	}
	return d
}

// expectClean requires that most attempts find nothing: it repeats until the clean ones lead by two, or the others do.
// look returns the finding. A busy machine may cause one false finding; a doctor that reports one every second time is
// wrong, however often it runs.
func expectClean(t *testing.T, look func() (accusation string)) {
	t.Helper()
	const mostLooks, leadWanted = 9, 2
	lead, looks := 0, 0
	for looks < mostLooks && lead < leadWanted && lead > -leadWanted {
		looks++
		if accusation := look(); accusation != "" {
			lead--
			t.Logf("look %d: found %s", looks, accusation)
		} else {
			lead++
		}
	}
	if lead <= 0 {
		t.Errorf("accused in %d of %d looks", (looks-lead)/2, looks)
	}
}

func expectCleanProcess(t *testing.T, pid, lasts string) {
	t.Helper()
	expectClean(t, func() string { return examine(t, pid, lasts).ids() })
}

// expectOnly requires this finding and no other, at this place.
func (d diagnosis) expectOnly(t *testing.T, id, place string) {
	t.Helper()
	if !d.isOnly(id) {
		t.Fatalf("found %q instead of %s alone", d.ids(), id)
	}
	f := d.Findings[0]
	if f.Title == "" || f.Figure == "" || f.Why == "" || len(f.Change) == 0 || f.Value <= 0 {
		t.Errorf("incomplete: %+v", f)
	}
	if place == "" {
		return
	}
	if len(f.Sites) == 0 || !strings.HasPrefix(f.Sites[0].Place, place+" ") || f.Sites[0].Share < 0.8 {
		t.Errorf("%s is not the place: %+v", place, f.Sites)
	}
}

func TestDoctorFinds(t *testing.T) {
	need(t)
	for _, test := range []struct{ way, conf, id, place string }{
		{"storm", "purge_delay:0", "purge-storm", "receive_buffer"},
		{"trims", "", "purge-storm", "receive_buffer"},
		{"videos", "purge:eager", "purge-storm", "next_picture"},
		{"fragments", "purge_delay:1000", "fragmentation", "remember_session"},
		{"scatters", "purge_delay:1000", "fragmentation", "remember_session"},
		{"pins", "purge_delay:1000", "fragmentation", "remember_session"},
		{"frees", "purge_delay:1000", "only-frees", "make_message"},
		{"hoards", "purge_delay:1000", "hoarding", ""},
		{"copies", "purge_delay:1000", "realloc-copies", "append_line"},
		{"aligned", "purge_delay:1000", "over-alignment", "make_aligned_counter"},
		{"splits", "purge_delay:1000", "mappings", ""},
	} {
		t.Run(test.way, func(t *testing.T) {
			args := []string{"run", "--", sick, test.way}
			if test.conf != "" {
				args = slices.Insert(args, 1, "--conf", test.conf)
			}
			// Each attempt starts the program again: what a process has sampled once does not change.
			var p *program
			next := func() string {
				if p != nil {
					p.stop()
				}
				p = launch(t, nil, slices.Insert(args, 0, binary)...)
				waitFor(t, socketOf(p.pid))
				return p.pid
			}
			examineEach(t, next, test.id, "1500ms").expectOnly(t, test.id, test.place)
		})
	}
}

func TestMappingsAreInTheJSONOfDoctorAndStats(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", sick, "splits")
	waitFor(t, socketOf(p.pid))
	d := examineFor(t, p.pid, "mappings", "500ms")
	var s struct {
		PID      json.Number
		Mappings struct{ Count, Limit int64 }
	}
	parse(t, tool(t, "stats", p.pid, "--json"), &s)
	if s.PID.String() != p.pid || s.Mappings.Count < s.Mappings.Limit/10*8 || s.Mappings.Limit == 0 {
		t.Errorf("stats: %+v", s)
	}
	if d.Mappings.Count < d.Mappings.Limit/10*8 || d.Mappings.Limit != s.Mappings.Limit {
		t.Errorf("doctor: %+v", d.Mappings)
	}
}

// Programs that resemble the storms but may keep memory for a while, and others that do nothing wrong.
func TestDoctorFindsNothingByDefault(t *testing.T) {
	need(t)
	for _, way := range []string{"storm", "videos", "grows", "workers"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := launch(t, nil, binary, "run", "--", sick, way)
			waitFor(t, socketOf(p.pid))
			time.Sleep(2 * time.Second)
			expectCleanProcess(t, p.pid, "2s")
		})
	}
}

func TestDoctorFindsAStormInEagerMode(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--conf", "purge:eager", "--", sick, "storm")
	waitFor(t, socketOf(p.pid))
	d := examineFor(t, p.pid, "purge-storm", "1500ms")
	d.expectOnly(t, "purge-storm", "receive_buffer")
	if !strings.Contains(strings.Join(d.Findings[0].Change, "\n"), "purge=balanced") {
		t.Errorf("%q", d.Findings[0].Change)
	}
}

func TestDoctorFindsBloat(t *testing.T) {
	need(t)
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skip("this system has no transparent huge pages")
	}
	p := launch(t, nil, binary, "run", "--", sick, "bloat")
	waitFor(t, socketOf(p.pid))
	d := examineFor(t, p.pid, "huge-pages", "1s")
	if len(d.Findings) == 0 && hugeBytes(t, p.pid) < 16<<20 {
		t.Skip("the system gave no huge pages")
	}
	d.expectOnly(t, "huge-pages", "")
}

// hugeBytes is the memory in huge pages.
func hugeBytes(t *testing.T, pid string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "AnonHugePages:")
	kib, err := strconv.Atoi(strings.Fields(after + " 0")[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestDoctorFindsDroppedSamples(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", sick, "drops")
	waitFor(t, socketOf(p.pid))
	tool(t, "set", p.pid, "sample=1")
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "ready")
	examineFor(t, p.pid, "samples-lost", "1s").expectOnly(t, "samples-lost", "")
}

func TestDoctorFindsTheLimit(t *testing.T) {
	need(t)
	group := memoryGroup(t, 128<<20)
	// The shell enters the cgroup, and the program replaces the shell.
	p := launch(t, nil, "sh", "-c", "echo $$ > "+group+"/cgroup.procs && exec "+binary+" run -- "+sick+" limit")
	waitFor(t, socketOf(p.pid))
	examineFor(t, p.pid, "memory-limit", "1s").expectOnly(t, "memory-limit", "load_table")
}

// memoryGroup makes a memory cgroup for the test, of v2 or v1.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	for _, place := range []struct{ mount, file string }{
		{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		folder := filepath.Join(place.mount, fmt.Sprintf("seemalloc-doctor-test-%d", os.Getpid()))
		if err := os.Mkdir(folder, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() {
			soon(t, folder+" goes", func() bool { return os.Remove(folder) == nil }) // the kernel has noticed the end of its process
		})
		// Not created: a directory that is not a cgroup has no such file.
		file, err := os.OpenFile(filepath.Join(folder, place.file), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = file.WriteString(strconv.Itoa(limit))
		file.Close()
		if err == nil {
			return folder
		}
	}
	t.Skip("no memory cgroup can be made here")
	return ""
}

func TestDoctorFindsNothingInACleanProgram(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", sick, "clean")
	waitFor(t, socketOf(p.pid))
	expectCleanProcess(t, p.pid, "2s")
	var out string
	expectClean(t, func() string {
		report, complaint, status := try(t, "doctor", p.pid, "--for", "200ms")
		if complaint != "" || status != 0 && status != foundStatus {
			t.Fatalf("status %d, %s", status, complaint)
		}
		if status == foundStatus {
			return report
		}
		out = report
		return ""
	})
	for _, want := range []string{"sick (pid " + p.pid + "), checked for ", ": nothing found\n", "\nChecked\n  ok functions whose memory grows", "\n  ok page faults"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// doctorRun runs `doctor -- sick WAY`, which may take this long.
func doctorRun(t *testing.T, lasts time.Duration, args ...string) (out, report string, status int) {
	t.Helper()
	command := exec.Command(binary, append([]string{"doctor"}, args...)...)
	command.Env = environment()
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, report = finish(t, command, func() { time.AfterFunc(lasts, func() { stdin.Close() }) })
	return out, report, command.ProcessState.ExitCode()
}

func TestDoctorOfARun(t *testing.T) {
	need(t)
	out, report, status := "", "", 0
	for seconds := 3; seconds < 500 && status != foundStatus; seconds *= 2 { // on a busy machine the program may hardly have run
		out, report, status = doctorRun(t, time.Duration(seconds)*time.Second, "--for", "1s", "--", sick, "copies")
	}
	if status != foundStatus || out != "ready\n" {
		t.Errorf("status %d, standard output %q", status, out)
	}
	for _, want := range []string{"sick (pid ", "exit status 0, checked for ", ": 1 finding\n", "Growing blocks are copied  [realloc-copies]\n", " append_line sick.cc:"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is not in\n%s", want, report)
		}
	}
	seconds := 2
	expectClean(t, func() string {
		for ; seconds < 500; seconds *= 2 {
			_, report, status := doctorRun(t, time.Duration(seconds)*time.Second, "--json", "--", sick, "clean")
			var d diagnosis
			if status == 0 || status == foundStatus {
				parse(t, report, &d)
			}
			if d.Seconds < 1 { // it could hardly be observed
				continue
			}
			if d.Status != "exit status 0" || (status == foundStatus) != (len(d.Findings) > 0) {
				t.Errorf("status %d\n%s", status, report)
			}
			return d.ids()
		}
		t.Fatal("it could never be looked at")
		return ""
	})
}

func TestDoctorOfAShortRun(t *testing.T) {
	need(t)
	out, complaint, status := try(t, "doctor", "--", "true")
	if status != 1 || out != "" || !strings.Contains(complaint, "before the second snapshot") {
		t.Errorf("status %d, %q", status, complaint)
	}
}

// Doctor's verdict on growth is that of `seemalloc growth`.
func TestDoctorFindsGrowth(t *testing.T) {
	need(t)
	p := startGrow(t, "leak", "5000000")
	examineFor(t, p.pid, "growth", "8s").expectOnly(t, "growth", "Session::Session")
}

// A program that has used up its mappings (vm.max_map_count): statistics and profiles still work, and what cannot work
// names the cause.
func TestUsedUpMappings(t *testing.T) {
	need(t)
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	limit, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || limit < 10000 || limit > 300000 {
		t.Skipf("the limit of mappings is far from the kernel's default: %d", limit)
	}
	source, user := filepath.Join(t.TempDir(), "user.c"), filepath.Join(t.TempDir(), "user")
	code := `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char** words) {
  long most = atol(words[count - 1]), page = sysconf(_SC_PAGESIZE);
  for (int i = 0; i < 20000; i++) memset(malloc(1000), 1, 1000);
  sleep(1);
  char* area = mmap(NULL, most * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (long i = 1; i < most; i += 2) if (mprotect(area + i * page, page, PROT_READ)) break;
  while (mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {}
  puts("ready"), fflush(stdout);
  for (char c; read(0, &c, 1) > 0;) {}
}`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-w", source, "-o", user); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, binary, "run", "--sample", "1K", "--", user, strconv.Itoa(limit))
	if s := statsOf(t, p.pid); s.Memory.Live < 20e6 {
		t.Errorf("statistics: %+v", s.Memory)
	}
	if said := tool(t, "stats", p.pid); strings.Contains(said, "the kernel refuses to report") {
		t.Errorf("statistics: %s", said)
	}
	file := filepath.Join(t.TempDir(), "x.pb.gz")
	for range 3 {
		tool(t, "profile", p.pid, "-o", file)
	}
	if top := tool(t, "top", file); !strings.Contains(top, "main") {
		t.Errorf("the profile: %s", top)
	}
	for _, command := range [][]string{{"map", p.pid}, {"trace", p.pid, "--for", "1s"}} {
		said, status := as(t, nil, command...)
		if status == 0 || !strings.Contains(said, "vm.max_map_count") || strings.Count(said, "\n") != 1 {
			t.Errorf("%v: status %d, %s", command, status, said)
		}
	}
	if said, _ := as(t, nil, "doctor", p.pid); !strings.Contains(said, "vm.max_map_count") {
		t.Errorf("doctor: %s", said)
	}
}
