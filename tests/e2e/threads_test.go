package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The bytes that threads.cc holds, by thread; the blocks are of exact class sizes.
var heldByThread = map[string]int64{"alpha": 500*1024 + 100*4096, "beta": 250 * 1024, "gone": 80 * 1024, "threads": 50 * 1024}

func startThreads(t *testing.T) *program {
	t.Helper()
	p := launch(t, nil, binary, "run", "--sample", "1", "--conf", "at_start:1", "--", threads)
	waitFor(t, socketOf(p.pid))
	return p
}

// tagFocused is the total after the reference pprof has filtered a file by a tag, in bytes or ns.
func tagFocused(t *testing.T, file, sampleIndex, unit, focus string) int64 {
	t.Helper()
	c := exec.Command("go", "tool", "pprof", "-top", "-unit="+unit, "-sample_index="+sampleIndex, "-tagfocus="+focus, "-nodecount=0", "-nodefraction=0", file)
	c.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := c.CombinedOutput()
	found := regexp.MustCompile(`(?m)^Showing nodes accounting for (\d+)(?:B|ns)?,`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("pprof -tagfocus=%s: %v\n%s", focus, err, out)
	}
	total, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return total
}

type threadsReport struct {
	Total   int64
	Threads []threadRow
}

func (r threadsReport) byThread() map[string]int64 {
	sums := map[string]int64{}
	for _, row := range r.Threads {
		sums[row.Thread] += row.Value
	}
	return sums
}

type threadRow struct {
	Thread    string
	TID       int64
	Value     int64
	Count     int64
	Functions []struct{ Name string }
}

func TestThreadsOfTheHeap(t *testing.T) {
	need(t)
	p := startThreads(t)
	file := filepath.Join(t.TempDir(), "threads.pb.gz")
	tool(t, "profile", p.pid, "--kind", "threads", "-o", file)
	var r threadsReport
	parse(t, tool(t, "top", p.pid, "--threads", "--json"), &r)
	held := r.byThread()
	for _, row := range r.Threads {
		soon(t, fmt.Sprintf("%+v is there, or gone", row), func() bool { // joining a thread may return before the kernel has removed it
			_, err := os.Stat(fmt.Sprintf("/proc/%s/task/%d", p.pid, row.TID))
			return (err == nil) == (row.Thread != "gone")
		})
	}
	for name, want := range heldByThread {
		// The start of the program and of the C library hold a little in the main thread; creators of threads hold
		// their handles.
		if got := held[name]; got < want || got > want+(128<<10) || name != "threads" && got != want {
			t.Errorf("%s holds %d, want %d: %+v", name, got, want, r.Threads)
		}
		report, flat, _ := top(t, p.pid, "--thread", "^"+name+"$")
		if report.Total != held[name] {
			t.Errorf("top --thread %s: %d, in the table %d", name, report.Total, held[name])
		}
		if name == "alpha" && (flat["hold"] != 500*1024 || flat["hold_apart"] != 100*4096) {
			t.Errorf("alpha: %v", flat)
		}
		if got := tagFocused(t, file, "inuse_space", "B", "thread=^"+name+"$"); got != report.Total {
			t.Errorf("pprof -tagfocus=thread=%s: %d, top --thread: %d", name, got, report.Total)
		}
	}
	report, flat, _ := top(t, p.pid)
	if report.Total != r.Total || flat["hold"] != 880*1024 {
		t.Errorf("the heap profile has %d, by thread %d; hold %d", report.Total, r.Total, flat["hold"])
	}
	for _, row := range r.Threads {
		if row.Thread != "alpha" {
			continue
		}
		tid := strconv.FormatInt(row.TID, 10)
		if report, _, _ := top(t, p.pid, "--thread", tid); report.Total != row.Value {
			t.Errorf("--thread %s: %d instead of %d", tid, report.Total, row.Value)
		}
		if got := tagFocused(t, file, "inuse_space", "B", "tid="+tid); got != row.Value {
			t.Errorf("pprof -tagfocus=tid=%s: %d instead of %d", tid, got, row.Value)
		}
	}
	// All commands that show a profile have the filter.
	for _, args := range [][]string{{"tree", p.pid}, {"peek", p.pid, "hold"}, {"top", file}, {"list", p.pid, "^hold$"}} {
		out := tool(t, append(args, "--thread", "beta")...)
		if !strings.Contains(out, "Filtered: thread beta") || !strings.Contains(out, "Total 250.0 KiB") {
			t.Errorf("%v\n%s", args, out)
		}
	}
	out := tool(t, "diff", file, p.pid, "--thread", "beta|gone")
	if !strings.Contains(out, "Total 330.0 KiB → 330.0 KiB") {
		t.Error(out)
	}
	table := tool(t, "top", p.pid, "--threads", "-n", "1")
	if !regexp.MustCompile(`(?m)^ +900\.0 KiB +\S+% +600 +\d+  alpha +hold 56%$`).MatchString(table) || !strings.Contains(table, "bytes in use by thread") {
		t.Errorf("no row of alpha in\n%s", table)
	}
}

// Live blocks are known by thread, and all threads together have the total of the heap.
func TestThreadsOfLifetimes(t *testing.T) {
	need(t)
	p := startThreads(t)
	file := filepath.Join(t.TempDir(), "lifetime.pb.gz")
	tool(t, "profile", p.pid, "--kind", "lifetime", "-o", file)
	var r threadsReport
	parse(t, tool(t, "top", p.pid, "--kind", "lifetime", "--by", "alive_space", "--threads", "--json"), &r)
	held := r.byThread()
	for name, want := range heldByThread {
		if got := held[name]; got < want || name != "threads" && got != want {
			t.Errorf("%s has %d alive, want %d: %+v", name, got, want, r.Threads)
		}
		if got := tagFocused(t, file, "alive_space", "B", "thread=^"+name+"$"); got != held[name] {
			t.Errorf("pprof -tagfocus=thread=%s: %d, top --threads: %d", name, got, held[name])
		}
	}
	for _, source := range [][]string{{p.pid, "--kind", "lifetime"}, {file}} {
		var report struct {
			Lifetimes []struct {
				Name  string
				Alive int64
			}
		}
		parse(t, tool(t, append([]string{"top", "--thread", "^alpha$", "--json"}, source...)...), &report)
		alive := map[string]int64{}
		for _, row := range report.Lifetimes {
			alive[row.Name] = row.Alive
		}
		if len(alive) != 2 || alive["hold"] != 500 || alive["hold_apart"] != 100 {
			t.Errorf("%v: %+v", source, report)
		}
	}
	if out := tool(t, "diff", file, p.pid, "--kind", "lifetime", "--by", "alive_space", "--thread", "beta"); !strings.Contains(out, "250.0 KiB → 250.0 KiB") {
		t.Error(out)
	}
}

func TestProfileWithoutThreads(t *testing.T) {
	need(t)
	p := startThreads(t)
	heap := filepath.Join(t.TempDir(), "heap.pb.gz")
	tool(t, "profile", p.pid, "-o", heap)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"no thread matches --thread nobody: it has alpha, beta, gone", []string{"top", p.pid, "--thread", "nobody"}},
		{"its samples have no threads", []string{"top", heap, "--thread", "alpha"}},
		{"its samples have no threads", []string{"top", heap, "--threads"}},
		{"its samples have no threads", []string{"top", p.pid, "--kind", "churn", "--thread", "alpha"}},
		{"its samples have no threads", []string{"top", p.pid, "--base", heap, "--thread", "alpha"}},
		{"its samples have no threads", []string{"diff", heap, p.pid, "--thread", "alpha"}},
		{"--thread: error parsing regexp", []string{"top", p.pid, "--thread", "("}},
		{"--thread: error parsing regexp", []string{"cpu", p.pid, "--thread", "("}},
	} {
		_, complaint, status := try(t, c.args...)
		if status == 0 || !strings.Contains(complaint, c.want) {
			t.Errorf("%v: status %d, %s", c.args, status, complaint)
		}
	}
}

func TestThreadsOfCPUTime(t *testing.T) {
	need(t)
	p := startThreads(t)
	file := filepath.Join(t.TempDir(), "cpu.pb.gz")
	type answer struct {
		out, complaint string
		status         int
	}
	var r threadsReport
	var used map[string]int64
	// Until it has completed some rounds: on a busy machine one may take long.
	for seconds := 3; seconds < 500 && used["alpha"]+used["beta"] < 27e8; seconds *= 2 {
		taken := make(chan answer)
		go func() {
			out, complaint, status := try(t, "cpu", p.pid, "--for", strconv.Itoa(seconds)+"s", "--hz", "200", "--threads", "--json", "-o", file)
			taken <- answer{out, complaint, status}
		}()
		var a answer
		for running := true; running; {
			select {
			case a = <-taken:
				running = false
			default:
				p.tell(t, "b")
			}
		}
		if a.status != 0 {
			t.Fatal(a.complaint)
		}
		r = threadsReport{}
		parse(t, a.out, &r)
		used = r.byThread()
	}
	// Twice as much in each round; three rounds, and part of another.
	if ratio := float64(used["alpha"]) / float64(used["beta"]); !(ratio > 1.3 && ratio < 2.7) {
		t.Errorf("alpha used %.2f times as much as beta, want 2: %+v", ratio, r.Threads)
	}
	for _, name := range []string{"alpha", "beta"} {
		if got := tagFocused(t, file, "cpu", "ns", "thread="+name); got != used[name] {
			t.Errorf("pprof -tagfocus=thread=%s: %d, in the table %d", name, got, used[name])
		}
		report, _, cum := top(t, file, "--thread", name)
		if report.Total != used[name] || float64(cum["burn"]) < 0.9*float64(used[name]) {
			t.Errorf("top --thread %s: %d, burn %d; in the table %d", name, report.Total, cum["burn"], used[name])
		}
	}
	if slices.ContainsFunc(r.Threads, func(row threadRow) bool { return row.TID == 0 }) {
		t.Errorf("threads without a number: %+v", r.Threads)
	}
}
