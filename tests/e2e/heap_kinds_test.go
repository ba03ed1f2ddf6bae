package e2e

import (
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// startHeapKinds runs one mode of heap_kinds.cc under the tool.
func startHeapKinds(t *testing.T, way string, flags ...string) *program {
	t.Helper()
	p := launch(t, nil, append(append([]string{binary, "run"}, flags...), "--", heapKinds, way)...)
	waitFor(t, socketOf(p.pid))
	return p
}

// fragmentationSaid returns the figures in the profile's comments: the free bytes, and the bytes that are charged to
// stacks.
func fragmentationSaid(t *testing.T, pid string) (exact, charged int64) {
	t.Helper()
	out := tool(t, "top", pid, "--kind", "fragmentation")
	found := regexp.MustCompile(`fragmentation: (\d+) bytes free in spans that live blocks keep, by heap metadata; (\d+) bytes charged`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("the exact total is not in\n%s", out)
	}
	exact, _ = strconv.ParseInt(found[1], 10, 64)
	charged, _ = strconv.ParseInt(found[2], 10, 64)
	return exact, charged
}

// Half-empty spans are charged to the few blocks that keep them, not to the many blocks in full spans.
func TestFragmentationIsChargedToPinningSites(t *testing.T) {
	need(t)
	p := startHeapKinds(t, "pinned", "--sample", "2K", "--conf", "purge:never,sample_limit:0")
	report, flat, _ := top(t, p.pid, "--kind", "fragmentation")
	// 4,000 sessions, and spans of 400 blocks: some sessions keep each span of the requests. One request in 13 was a
	// sample, in a span of its own.
	exact, charged := fragmentationSaid(t, p.pid)
	if most := int64(400000 * 99 / 100 * 160); exact > most || exact < most*9/10 {
		t.Errorf("%d bytes are free, expected nearly %d", exact, most)
	}
	if off := charged - report.Total; off < -16 || off > 16 { // rows are rounded
		t.Errorf("the profile says that %d bytes are charged, its rows %d", charged, report.Total)
	}
	// The error is 0.055 of them; where the samples are off by more than three times that (once in 300 times), their
	// actual error.
	most := max(float64(exact)/10, math.Abs(float64(charged-exact)))
	if report.Error <= 0 || report.Error > most+16 || most > float64(exact)/4 {
		t.Errorf("standard error %.0f, %d bytes charged of %d", report.Error, charged, exact)
	}
	within(t, "remember_session", flat["remember_session"], exact, report.Error)
	if flat["fill_table"] > exact/50 {
		t.Errorf("fill_table, whose spans are full, is charged %d", flat["fill_table"])
	}
	if flat["serve_request"] != 0 {
		t.Errorf("serve_request, whose blocks are all freed, is charged %d", flat["serve_request"])
	}
	_, objects, _ := top(t, p.pid, "--kind", "fragmentation", "--unit", "objects")
	sampled(t, "objects", objects["remember_session"]*160, 4000, 160, 2<<10)
}

// Where everything is recorded nothing is estimated.
func TestFragmentationWithEverythingRecorded(t *testing.T) {
	need(t)
	p := startHeapKinds(t, "pinned", "--sample", "1", "--conf", "purge:never")
	report, flat, _ := top(t, p.pid, "--kind", "fragmentation")
	exact, charged := fragmentationSaid(t, p.pid)
	if off := exact - charged; off < -1000 || off > 1000 || exact < 20<<20 {
		t.Errorf("%d bytes are free, %d charged", exact, charged)
	}
	if off := math.Abs(float64(flat["remember_session"])/float64(exact) - 1); off > 0.02 {
		t.Errorf("remember_session is charged %d of %d", flat["remember_session"], exact)
	}
	if report.Error != 0 {
		t.Errorf("standard error %g", report.Error)
	}
}

// Growth is charged to the function for which the heap grows first; a function that reuses free memory causes no
// growth.
func TestGrowthIsChargedToGrowingSites(t *testing.T) {
	need(t)
	p := startHeapKinds(t, "grown")
	report, flat, _ := top(t, p.pid, "--kind", "expansion")
	const mib = 1 << 20
	if flat["load_index"] < 62*mib || flat["load_index"] > 68*mib {
		t.Errorf("load_index has made the heap grow by %d, expected 64 MiB", flat["load_index"])
	}
	if flat["map_table"] != 96*mib {
		t.Errorf("map_table has made the heap grow by %d, expected 96 MiB", flat["map_table"])
	}
	if flat["reuse"] > 2*mib {
		t.Errorf("reuse has made the heap grow by %d", flat["reuse"])
	}
	if flat["(no stack)"] != 2*mib {
		t.Errorf("the first region: %d bytes", flat["(no stack)"])
	}
	if report.Error != 0 {
		t.Errorf("standard error %g of what is counted", report.Error)
	}
	_, objects, _ := top(t, p.pid, "--kind", "growth", "--unit", "objects")
	if objects["map_table"] != 1 {
		t.Errorf("map_table: %d times", objects["map_table"])
	}
}

// An arena's users show up by name, exactly when everything is recorded.
func TestPoolsShowTheArenasUsers(t *testing.T) {
	need(t)
	p := startHeapKinds(t, "arena", "--sample", "1")
	_, _, inuse := top(t, p.pid, "--kind", "pools")
	_, _, alloc := top(t, p.pid, "--kind", "pools", "--by", "alloc")
	for name, want := range map[string][2]int64{"read_text": {15000 * 200, 20000 * 200}, "parse_node": {20000 * 48, 20000 * 48}, "scratch": {0, 20000 * 1000}} {
		if inuse[name] != want[0] || alloc[name] != want[1] {
			t.Errorf("%s: %d in use, %d allocated, expected %v", name, inuse[name], alloc[name], want)
		}
	}
	out := tool(t, "top", p.pid, "--kind", "pools")
	for _, want := range []string{"texts", "nodes", "memory pools: 3 created"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestPoolsAreEstimated(t *testing.T) {
	need(t)
	p := startHeapKinds(t, "arena", "--sample", "4K")
	_, _, cum := top(t, p.pid, "--kind", "pools")
	sampled(t, "read_text", cum["read_text"], 15000, 200, 4<<10)
	sampled(t, "parse_node", cum["parse_node"], 20000, 48, 4<<10)
	if cum["scratch"] != 0 {
		t.Errorf("scratch, which began anew, has %d", cum["scratch"])
	}
}

// In a static program the library's functions are not at the end of a stack automatically: readers have to recognise
// them.
func TestPoolsOfAStaticProgram(t *testing.T) {
	need(t)
	archive := filepath.Join(filepath.Dir(library), "libseemalloc.a")
	program := filepath.Join(t.TempDir(), "heap_kinds")
	if err := build("c++", "-std=c++20", "-O2", "-g", "-static", "-pthread", "-fno-optimize-sibling-calls", "-I../../core/include",
		"testdata/heap_kinds.cc", "-o", program, archive, "-Wl,--eh-frame-hdr", "-Wl,-u,seemalloc_pool_create"); err != nil {
		t.Fatal(err)
	}
	p := launch(t, []string{"SEEMALLOC_CONF=sample:1"}, program, "arena")
	waitFor(t, socketOf(p.pid))
	file := filepath.Join(t.TempDir(), "pools.pb.gz")
	tool(t, "profile", p.pid, "--kind", "pools", "-o", file)
	taken := profileOf(t, file)
	taken.RemoveUninteresting() // as pprof does
	flat := map[string]int64{}
	for _, sample := range taken.Sample {
		lines := sample.Location[0].Line
		if len(lines) == 0 {
			t.Fatalf("a location without a name at %#x", sample.Location[0].Address)
		}
		flat[lines[0].Function.Name] += sample.Value[3]
	}
	for name := range flat {
		if strings.Contains(name, "seemalloc") || strings.Contains(name, "anonymous") {
			t.Errorf("%s, which is the allocator's, is charged %d bytes", name, flat[name])
		}
	}
	_, shown, cum := top(t, p.pid, "--kind", "pools")
	for name := range shown {
		if strings.Contains(name, "seemalloc") || strings.Contains(name, "anonymous") {
			t.Errorf("%s, which is the allocator's, is shown with %d bytes", name, shown[name])
		}
	}
	if cum["parse_node"] != 20000*48 {
		t.Errorf("parse_node: %d", cum["parse_node"])
	}
}

// The same program without the library: its pool calls have no effect.
func TestPoolsWithoutTheLibrary(t *testing.T) {
	need(t)
	launch(t, nil, heapKinds, "arena")
}
