package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startKinds runs kinds.cc with every allocation recorded.
func startKinds(t *testing.T) *program {
	t.Helper()
	p := launch(t, nil, binary, "run", "--sample", "1", "--conf", "at_start:1", "--", kinds)
	waitFor(t, socketOf(p.pid))
	return p
}

// near: the peak is captured to within 4 KiB, or 1/1024 of it, per thread.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if off := got - want; off > 8<<10 || off < -8<<10 {
		t.Errorf("%s: %d, exactly %d", what, got, want)
	}
}

func TestPeak(t *testing.T) {
	need(t)
	p := startKinds(t)
	_, flat, _ := top(t, p.pid, "--kind", "peak")
	near(t, "held", flat["held"], 1000*1024)
	near(t, "spike", flat["spike"], 1000*4096)
	if flat["short_lived"] != 0 || flat["long_lived"] != 0 {
		t.Errorf("at the peak there were no %d or %d bytes", flat["short_lived"], flat["long_lived"])
	}
	if _, now, _ := top(t, p.pid); now["spike"] != 0 {
		t.Errorf("spike still holds %d", now["spike"])
	}
	out := tool(t, "top", p.pid, "--kind", "peak")
	for _, want := range []string{"bytes in use at the peak by function", "Comment: peak: ", " ms before this profile was taken"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestSinceABaseline(t *testing.T) {
	need(t)
	p := startKinds(t)
	if _, flat, _ := top(t, p.pid, "--kind", "since"); flat["held"] != 1000*1024 {
		t.Errorf("without a baseline: held %d", flat["held"])
	}
	if out := tool(t, "baseline", p.pid); !strings.Contains(out, "baseline set") {
		t.Error(out)
	}
	p.tell(t, "m")
	report, flat, _ := top(t, p.pid, "--kind", "since")
	if flat["after_mark"] != 100*2048 || flat["held"] != 0 || report.Exact != nil {
		t.Errorf("since the mark: %v, exact %v", flat, report.Exact)
	}
	// Answering the tool allocates a little.
	const slack = 256 << 10
	if more := report.ExactMore; more == nil || *more < 100*2048 || *more > 100*2048+slack {
		t.Errorf("exactly %v more since the mark", more)
	}
	p.tell(t, "f")
	report, flat, _ = top(t, p.pid, "--kind", "since")
	if more := report.ExactMore; more == nil || *more > slack-1000*1024 {
		t.Errorf("exactly %v more after all was freed", more)
	}
	_, allocated, _ := top(t, p.pid, "--kind", "since", "--by", "alloc")
	if flat["after_mark"] != 0 || flat["held"] != -1000*1024 || allocated["after_mark"] != 100*2048 {
		t.Errorf("after all was freed: %v, allocated %v", flat, allocated)
	}
}

func TestBaselineByOption(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--sample", "1", "--conf", "at_start:1,baseline_after:1", "--", kinds)
	waitFor(t, socketOf(p.pid))
	soon(t, "the baseline is set", func() bool {
		return strings.Contains(tool(t, "top", p.pid, "--kind", "since"), "Comment: since: the baseline was set ")
	})
}

func TestChurn(t *testing.T) {
	need(t)
	p := startKinds(t)
	by := func(value string) map[string]int64 {
		_, flat, _ := top(t, p.pid, "--kind", "churn", "--by", value)
		return flat
	}
	_, short, _ := top(t, p.pid, "--kind", "churn") // the purpose of this kind
	if n := short["short_lived"]; n > 1000*112 || n < 800*112 {
		t.Errorf("short_lived: %d bytes freed within 10 ms", n)
	}
	if n := short["long_lived"] + short["held"]; n != 0 {
		t.Errorf("long-lived blocks are short-lived: %d", n)
	}
	if n := by("alloc_objects")["short_lived"]; n != 1000 {
		t.Errorf("short_lived: %d allocations", n)
	}
	if asked, got := by("requested_space")["short_lived"], by("alloc_space")["short_lived"]; asked != 100000 || got != 112000 {
		t.Errorf("short_lived: %d bytes asked for, %d allocated", asked, got)
	}
	if n := by("moved_objects")["copied"]; n != 100 {
		t.Errorf("copied: %d copies by realloc", n)
	}
}

func TestLifetimes(t *testing.T) {
	need(t)
	p := startKinds(t)
	var report struct {
		Lifetimes []struct {
			Name       string
			Alive      int64
			Freed      int64
			FreedBytes int64   `json:"freed_bytes"`
			Elsewhere  int64   `json:"freed_by_another_thread"`
			Mean       float64 `json:"mean_ns"`
			Deviation  float64 `json:"deviation_ns"`
			LeastNS    int64   `json:"least_ns"`
			MostNS     int64   `json:"most_ns"`
			Ages       map[string]int64
		}
	}
	parse(t, tool(t, "top", p.pid, "--kind", "lifetime", "--json"), &report)
	seen := 0
	for _, row := range report.Lifetimes {
		seen++
		least, most := float64(row.LeastNS), float64(row.MostNS)
		if row.Freed > 0 && (row.Mean < least || row.Mean > most || row.Deviation > (most-least)/2+1) {
			t.Errorf("it cannot be so: %+v", row)
		}
		switch row.Name {
		case "held":
			if row.Alive != 1000 || row.Freed != 0 {
				t.Errorf("%+v", row)
			}
		case "long_lived":
			if row.Alive != 0 || row.Freed != 100 || row.FreedBytes != 25600 || row.LeastNS < 190e6 || row.Mean > 60e9 || row.Elsewhere != 0 {
				t.Errorf("%+v", row)
			}
		case "short_lived":
			// On a slow or busy machine not all of them are freed, nor as soon.
			if row.Freed != 1000 || row.Mean > 100e6 || row.Ages["under 1us"]+row.Ages["1us to 10us"]+row.Ages["10us to 100us"] < 800 {
				t.Errorf("%+v", row)
			}
		case "passed_on":
			if row.Freed != 100 || row.Elsewhere != 100 {
				t.Errorf("%+v", row)
			}
		default:
			seen--
		}
	}
	if seen != 4 {
		t.Errorf("of four functions %d are shown: %+v", seen, report)
	}
	if out := tool(t, "top", p.pid, "--kind", "lifetime"); !strings.Contains(out, "mean deviation      most  mostly") {
		t.Errorf("no table in\n%s", out)
	}
}

// pairsOf returns the blocks of a profile of deaths: how many blocks that one function allocated another function freed
// ("" where that is unknown).
func pairsOf(t *testing.T, pid string) map[[2]string]int64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "deaths.pb.gz")
	tool(t, "profile", pid, "--kind", "deaths", "-o", file)
	p := profileOf(t, file)
	pairs := map[[2]string]int64{}
	for _, sample := range p.Sample {
		var names []string
		for _, loc := range sample.Location {
			name := fmt.Sprintf("%#x", loc.Address)
			if len(loc.Line) != 0 {
				name = loc.Line[0].Function.Name
			}
			names = append(names, name)
		}
		at := slices.Index(names, "(freed by)")
		if at < 0 || at+1 == len(names) {
			t.Fatalf("not two stacks: %v", names)
		}
		freed := ""
		if at != 0 {
			freed = names[0]
		}
		pairs[[2]string{names[at+1], freed}] += sample.Value[0]
	}
	return pairs
}

// exactDeaths are the expected pairs of kinds.cc.
func exactDeaths(t *testing.T, pid string) {
	t.Helper()
	pairs := pairsOf(t, pid)
	for pair, want := range map[[2]string]int64{
		{"spike", "spike"}: 1000, {"short_lived", "short_lived"}: 1000, {"long_lived", "long_lived"}: 100, {"passed_on", "free_passed"}: 100,
		{"copied", "copied"}: 200, // half of them by realloc
	} {
		found := int64(0)
		for seen, n := range pairs {
			if strings.HasPrefix(seen[0], pair[0]) && strings.HasPrefix(seen[1], pair[1]) {
				found += n
			} else if strings.HasPrefix(seen[0], pair[0]) {
				t.Errorf("%d blocks of %s are said to be freed by %s", n, seen[0], seen[1])
			}
		}
		if found != want {
			t.Errorf("%d blocks of %s freed by %s, exactly %d", found, pair[0], pair[1], want)
		}
	}
	for seen := range pairs {
		if strings.HasPrefix(seen[0], "held") || strings.Contains(seen[0]+seen[1], "seemalloc") {
			t.Errorf("%v", seen)
		}
	}
}

func TestDeaths(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--sample", "1", "--conf", "at_start:1,free_stacks:all", "--", kinds)
	waitFor(t, socketOf(p.pid))
	exactDeaths(t, p.pid)
	report, flat, cum := top(t, p.pid, "--kind", "deaths")
	if flat["free_passed"] != 100*512 || cum["passed_on"] != 100*512 || report.Total < 1000*4096 {
		t.Errorf("freed by free_passed %d, of passed_on %d, in all %d", flat["free_passed"], cum["passed_on"], report.Total)
	}
	if out := tool(t, "top", p.pid, "--kind", "deaths"); !strings.Contains(out, "bytes freed by function") || !strings.Contains(out, "Comment: deaths: ") {
		t.Error(out)
	}
	p.tell(t, "f")
	held := int64(0)
	for pair, n := range pairsOf(t, p.pid) {
		if pair[0] == "held" && pair[1] == "main" {
			held += n
		}
	}
	if held != 1000 {
		t.Errorf("of held main has freed %d", held)
	}
}

// By default free stacks are recorded where blocks are sampled, and only there.
func TestDeathsByDefault(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--sample", "2K", "--conf", "at_start:1,sample_limit:0", "--", kinds)
	waitFor(t, socketOf(p.pid))
	_, _, cum := top(t, p.pid, "--kind", "deaths")
	sampled(t, "spike", cum["spike"], 1000, 4096, 2<<10)
	for pair, n := range pairsOf(t, p.pid) {
		if pair[1] == "" && n != 0 {
			t.Errorf("%d blocks of %s are not known to be freed by anybody", n, pair[0])
		}
	}
	every := startKinds(t)
	for pair, n := range pairsOf(t, every.pid) {
		if pair[1] != "" {
			t.Errorf("sample:1: %d blocks of %s freed by %s", n, pair[0], pair[1])
		}
	}
	off := launch(t, nil, binary, "run", "--sample", "2K", "--conf", "at_start:1,free_stacks:off", "--", kinds)
	waitFor(t, socketOf(off.pid))
	for pair, n := range pairsOf(t, off.pid) {
		if pair[1] != "" {
			t.Errorf("free_stacks:off: %d blocks of %s freed by %s", n, pair[0], pair[1])
		}
	}
}

// In a static program the library's functions are at the ends of both stacks: they are removed.
func TestDeathsOfAStaticProgram(t *testing.T) {
	need(t)
	program := filepath.Join(t.TempDir(), "kinds")
	if err := build("c++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-optimize-sibling-calls", "testdata/kinds.cc", "-o", program,
		filepath.Join(filepath.Dir(library), "libseemalloc.a")); err != nil {
		t.Fatal(err)
	}
	p := launch(t, []string{"SEEMALLOC_CONF=sample:1,at_start:1,free_stacks:all"}, program)
	waitFor(t, socketOf(p.pid))
	exactDeaths(t, p.pid)
}

func TestAllocsOverAWindow(t *testing.T) {
	need(t)
	p := startKinds(t)
	if _, flat, _ := top(t, p.pid, "--kind", "allocs"); flat["short_lived"] != 112000 || flat["held"] != 1024000 {
		t.Errorf("since the start: %v", flat)
	}
	file := filepath.Join(t.TempDir(), "window.pb.gz")
	var report topReport
	var flat map[string]int64
	// The program cannot tell when the window begins or ends: on a busy machine its events may come too early or too
	// late.
	for seconds := 3; seconds < 100; seconds *= 2 {
		told := time.AfterFunc(time.Duration(seconds)*time.Second/3, func() { p.stdin.Write([]byte("m\n")) })
		began := time.Now()
		tool(t, "profile", p.pid, "--kind", "allocs", "--seconds", strconv.Itoa(seconds)+"s", "-o", file)
		if took := time.Since(began); took < time.Duration(seconds)*time.Second {
			t.Errorf("a window of %d s took %v", seconds, took)
		}
		if told.Stop() {
			continue
		}
		p.expect(t, "done")
		if report, flat, _ = top(t, file); flat["after_mark"] == 100*2048 {
			break
		}
	}
	if flat["after_mark"] != 100*2048 || flat["held"] != 0 {
		t.Errorf("in the window: %v", flat)
	}
	if report.Allocated == nil || *report.Allocated != report.Total {
		t.Errorf("exactly %v were allocated in the window, by samples of everything %d", report.Allocated, report.Total)
	}
	if out := tool(t, "top", file); !strings.Contains(out, " per second over ") || !strings.Contains(out, "Comment: window: ") {
		t.Errorf("no rate in\n%s", out)
	}
}

// The exact figure of allocated bytes is beside its estimate in every kind that has one, and everything is recorded.
func TestKindsAreExact(t *testing.T) {
	need(t)
	p := startKinds(t)
	line := regexp.MustCompile(`Comment: allocated: (\d+) bytes estimated, standard error 0 bytes; exactly (\d+) bytes since the start`)
	for _, kind := range []string{"allocs", "churn", "lifetime", "deaths", "remote"} {
		out := tool(t, "top", p.pid, "--kind", kind)
		m := line.FindStringSubmatch(out)
		if m == nil {
			t.Errorf("%s does not say it:\n%s", kind, out)
			continue
		}
		estimate, _ := strconv.ParseInt(m[1], 10, 64)
		exact, _ := strconv.ParseInt(m[2], 10, 64)
		// Allocations from before sampling began are not in the estimate.
		if exact < estimate || exact > estimate+64<<10 {
			t.Errorf("%s: %d by samples of everything, exactly %d", kind, estimate, exact)
		}
	}
	for _, args := range [][]string{{"top", p.pid}, {"peek", p.pid, "main"}, {"tree", p.pid}} {
		args = append(args, "--by", "alloc")
		if out := tool(t, args...); !strings.Contains(out, "; exact allocated bytes: ") {
			t.Errorf("%v:\n%s", args, out)
		}
	}
	tool(t, "baseline", p.pid)
	p.tell(t, "m")
	out := tool(t, "top", p.pid, "--kind", "since", "--by", "alloc")
	m := regexp.MustCompile(`Comment: allocated: (\d+) bytes estimated, standard error 0 bytes; exactly (\d+) bytes since the baseline`).FindStringSubmatch(out)
	if m == nil || m[1] != m[2] || m[1] != strconv.Itoa(100*2048) {
		t.Errorf("%v in\n%s", m, out)
	}
}

// A file shows the same facts as the process would.
func TestFileReportsItsSamplingData(t *testing.T) {
	need(t)
	p := leak(t, 100, "--sample", "64K", "--conf", "stack_depth:4")
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	tool(t, "profile", p.pid, "-o", file)
	out := tool(t, "top", file)
	for _, want := range []string{"standard error; sampled once in 64.00 KiB", "exact live bytes: ", " samples with a truncated stack"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	report, _, _ := top(t, file)
	if report.Exact == nil {
		t.Fatal("no exact total")
	}
	within(t, "total", report.Total, *report.Exact, report.Error)
}

func TestUnknownKind(t *testing.T) {
	need(t)
	p := leak(t, 1)
	for _, args := range [][]string{{"profile", p.pid, "--kind", "nonsense"}, {"top", p.pid, "--kind", "nonsense"}} {
		out, complaint, status := try(t, args...)
		if status != 1 || out != "" || !strings.Contains(complaint, `unknown kind of profile "nonsense", expected one of heap, allocs, peak`) {
			t.Errorf("%v: %d %q %q", args, status, out, complaint)
		}
	}
	for _, args := range [][]string{{"top", p.pid, "--kind", "peak", "--seconds", "1s"}, {"top", p.pid, "--kind", "no such"}} {
		if _, complaint, status := try(t, args...); status != 2 {
			t.Errorf("%v: %d %q", args, status, complaint)
		}
	}
}

// Allocations by constructors of libraries: above them is the dynamic linker's start code, which has no unwind tables,
// and above that nothing.
func TestStacksOfConstructorsAreComplete(t *testing.T) {
	need(t)
	dir := t.TempDir()
	shared, program, file := filepath.Join(dir, "libconstructor.so"), filepath.Join(dir, "program"), filepath.Join(dir, "heap.pb")
	source := filepath.Join(dir, "main.c")
	if err := os.WriteFile(source, []byte("extern void* volatile kept;\nint main(void) { return kept == 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-O2", "-g", "-shared", "-fPIC", "testdata/constructor.c", "-o", shared); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-O2", source, shared, "-Wl,-rpath,"+dir, "-o", program); err != nil {
		t.Fatal(err)
	}
	tool(t, "run", "--conf", "sample:1,dump_at_exit:"+file, "--", program)
	report, flat, _ := top(t, file)
	if flat["at_load"] < 3000 {
		t.Errorf("at_load has %d bytes: %+v", flat["at_load"], report.Functions)
	}
	if text := tool(t, "top", file); !strings.Contains(text, " 0 samples with a broken unwind") {
		t.Errorf("%s", text)
	}
}
