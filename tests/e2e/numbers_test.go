package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"seemalloc/tool/report"
)

// Compares the figures of all commands at one moment with the known truth of a program: planned.cc.

// sums is the truth about the blocks of one place.
type sums struct{ blocks, requested, allocated, resident int64 }

func (s *sums) add(more sums) {
	s.blocks += more.blocks
	s.requested += more.requested
	s.allocated += more.allocated
	s.resident += more.resident
}

var plannedProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(work, "planned")
	return program, build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread",
		"-I../../core/include", "testdata/planned.cc", "-o", program)
})

// planned starts the program with these steps.
func planned(t *testing.T, conf string, steps ...string) *program {
	t.Helper()
	need(t)
	binary, err := plannedProgram()
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, []string{"LD_PRELOAD=" + library, "SEEMALLOC_CONF=" + conf}, append([]string{binary}, steps...)...)
	waitFor(t, socketOf(p.pid))
	return p
}

// truth asks the program for the blocks that it holds: by place, and in total.
func (p *program) truth(t *testing.T) (places map[string]sums, all sums) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, "truth\n"); err != nil {
		t.Fatal(err)
	}
	places = map[string]sums{}
	for p.lines.Scan() && p.lines.Text() != "done" {
		var name string
		var s sums
		if _, err := fmt.Sscan(p.lines.Text(), &name, &s.blocks, &s.requested, &s.allocated, &s.resident); err != nil {
			t.Fatalf("%q: %v", p.lines.Text(), err)
		}
		places[name] = s
		all.add(s)
	}
	return places, all
}

// residentMemory is the breakdown of RSS that `stats`, `map` and the page report.
type residentMemory struct {
	RSS, Live, Cached, Fragmentation, Metadata, Dirty int64
	NotOurs                                           int64 `json:"not_ours"`
	LiveAllocated                                     int64 `json:"live_allocated"`
	Uncertain                                         int64
	Refused                                           int64 `json:"pages_refused"`
}

// fullStats is the part of `stats --json` that these tests compare.
type fullStats struct {
	Memory   residentMemory
	Sampling struct {
		Samples, Truncated, Broken int64
		Requested                  float64
		RequestedStderr            float64 `json:"requested_stderr"`
		Estimate                   float64
	}
	Spans struct {
		CachedLargeBytes int64 `json:"cached_large_bytes"`
		FreeDirtyBytes   int64 `json:"free_dirty_bytes"`
		EmptyBytes       int64 `json:"empty_bytes"`
	}
	Blocks struct {
		LiveBytes   int64 `json:"live_bytes"`
		CachedBytes int64 `json:"cached_bytes"`
		FreeBytes   int64 `json:"free_bytes"`
		Allocated   int64 `json:"allocated_bytes"`
	}
	Large       struct{ Blocks, Bytes int64 }
	SizeClasses []struct{ Size, Live, Cached, Free int64 } `json:"size_classes"`
}

// mapSums adds up the figures of `map --json`.
type mapSums struct {
	live, free, holes, dirtyPages int64
	memory                        *residentMemory
}

func mapOf(t *testing.T, pid string) (sum mapSums) {
	t.Helper()
	lines := json.NewDecoder(strings.NewReader(tool(t, "map", pid, "--json")))
	for lines.More() {
		var line struct {
			Memory        *residentMemory
			Region, Block string
			Dirty         int64
			LiveBytes     int64 `json:"live_bytes"`
			FreeBytes     int64 `json:"free_bytes"`
			HoleBytes     int64 `json:"hole_bytes"`
			Bytes         int64
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Memory != nil {
			sum.memory = line.Memory
		}
		sum.live += line.LiveBytes
		sum.free += line.FreeBytes
		sum.holes += line.HoleBytes
		sum.dirtyPages += line.Dirty
		if line.Block != "" {
			sum.live += line.Bytes
		}
	}
	return sum
}

// page is the process as the page's server reports it.
type page struct {
	stats  fullStats
	points []struct{ RSS, Live, Cached, Frag, Meta, Other, Dirty, Handed, Allocated, Unsure int64 }
	live   int64 // of its map
	free   int64
	memory *residentMemory
	inuse  int64 // of its heap profile
}

// startPage starts the page of a process. The result reads one of its answers.
func startPage(t *testing.T, pid string) (ask func(what string, into any)) {
	t.Helper()
	command := exec.Command(binary, "web", pid)
	command.Env = environment("XDG_CACHE_HOME=" + t.TempDir())
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	address, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return func(what string, into any) {
		t.Helper()
		answer, err := http.Get(strings.TrimSpace(address) + "api/" + what)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		parse(t, string(text), into)
	}
}

func pageOf(t *testing.T, pid string) (p page) {
	t.Helper()
	ask := startPage(t, pid)
	soon(t, "a point", func() bool { ask("series?since=0", &p.points); return len(p.points) > 0 })
	ask("stats", &p.stats)
	var sums struct {
		Memory  *residentMemory
		Columns []string
		Regions [][]int64
		Blocks  []struct{ Bytes int64 }
	}
	ask("map", &sums)
	p.memory = sums.Memory
	for _, region := range sums.Regions {
		for i, name := range sums.Columns {
			switch name {
			case "live":
				p.live += region[i]
			case "free":
				p.free += region[i]
			}
		}
	}
	for _, block := range sums.Blocks {
		p.live += block.Bytes
	}
	var moments []struct{ InUse int64 }
	soon(t, "a profile", func() bool { ask("moments", &moments); return len(moments) > 0 })
	p.inuse = moments[len(moments)-1].InUse
	return p
}

func same(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, expected %d: %+d", what, got, want, got-want)
	}
}

func about(t *testing.T, what string, got, want, most int64) {
	t.Helper()
	if off := got - want; off > most || off < -most {
		t.Errorf("%s: %d, expected %d ± %d: %+d", what, got, want, most, off)
	}
}

// checkStats compares the parts and sums of `stats` with the truth.
func checkStats(t *testing.T, s fullStats, all sums) {
	t.Helper()
	m := s.Memory
	same(t, "the parts of RSS", m.Live+m.Cached+m.Fragmentation+m.Metadata+m.NotOurs, m.RSS)
	same(t, "live_allocated", m.LiveAllocated, all.allocated)
	same(t, "blocks.live_bytes", s.Blocks.LiveBytes, all.allocated)
	var live, cached, free int64
	for _, c := range s.SizeClasses {
		live += c.Size * c.Live
		cached += c.Size * c.Cached
		free += c.Size * c.Free
	}
	same(t, "live blocks of all sizes", live+s.Large.Bytes, all.allocated)
	same(t, "cached blocks of all sizes", cached+s.Spans.CachedLargeBytes, s.Blocks.CachedBytes)
	same(t, "free blocks of all sizes", free, s.Blocks.FreeBytes)
	about(t, "live", m.Live, all.resident, m.Uncertain)
	if m.Dirty > m.Cached || m.Refused != 0 {
		t.Errorf("%+v", m)
	}
	if s.Sampling.Truncated > s.Sampling.Samples || s.Sampling.Broken > s.Sampling.Samples {
		t.Errorf("%+v", s.Sampling)
	}
}

func TestNumbersAgree(t *testing.T) {
	const mib = 1 << 20
	for _, plan := range []struct {
		name      string
		conf      string
		steps     []string
		fragments int64 // resident bytes between live blocks, to within 2 MiB; -1: unknown
	}{
		// As in a bug report: 80 blocks of 900 KiB that were never written beside 60 MB of half-empty spans.
		{"unwritten large blocks", "purge:never", []string{"0,921600,80,0,1", "1,1024,61440,-1,16"}, 60 * mib / 16 * 15},
		{"huge blocks that hardly anybody wrote", "purge:never", []string{"0,50000000,6,8192,1", "1,512,122880,-1,8"}, 60 * mib / 8 * 7},
		{"freed unwritten large blocks", "purge:never", []string{"0,300000,300,1,0", "1,2000000,20,1,0", "2,256,100000,-1,4"}, 256 * 75000},
		{"small blocks of odd sizes", "purge:never", []string{"0,8,200000,-1,1", "1,1,100000,-1,1", "2,112,50000,-1,1", "3,100,50000,-1,1", "4,3000,2000,-1,1"}, -1},
		{"blocks of pages, partly written", "purge:never", []string{"0,30000,1500,8,2", "1,12345,3000,5000,3", "2,5000,4000,-1,1"}, -1},
		{"threads that keep lists", "purge:never", []string{"0,64,100000,-1,3,thread", "1,2048,5000,-1,2,thread", "2,900000,20,-1,2,thread", "3,64,1000,-1,1"}, -1},
		{"freed blocks of pages, hardly written", "purge:never", []string{"0,20000,4000,8,8", "1,30000,1500,8,4"}, -1},
		{"memory that goes back", "", []string{"0,700,60000,-1,64", "1,921600,40,-1,4"}, -1},
		{"stacks that are cut, of frees too", "purge:never,stack_depth:4,free_stacks:all", []string{"0,64,50000,-1,2", "1,3000,20000,-1,0", "2,500,20000,-1,1"}, -1},
		{"huge pages", "purge:never", []string{"0,1024,150000,-1,1", "1,1024,150000,-1,10", "2,900000,100,100000,1"}, -1},
	} {
		for _, sample := range []string{"1", "64K"} {
			t.Run(plan.name+", sample "+sample, func(t *testing.T) {
				p := planned(t, strings.Trim(plan.conf+",sample:"+sample+",sample_limit:0", ","), plan.steps...)
				places, all := p.truth(t)
				var s fullStats
				parse(t, tool(t, "stats", p.pid, "--json"), &s)
				checkStats(t, s, all)
				if plan.fragments >= 0 && sample != "1" { // a recorded block is in another span
					about(t, "fragmentation", s.Memory.Fragmentation, plan.fragments, 2*mib+s.Memory.Uncertain)
				}
				checkTop(t, p.pid, sample == "1", s, places, all)
				s = checkMap(t, p.pid, plan.conf == "", s)
				checkDoctor(t, p.pid, s)
				checkPage(t, p.pid, plan.conf == "", s, all)
			})
		}
	}
}

// checkTop: the heap's exact counts must agree, and the samples where everything is recorded.
func checkTop(t *testing.T, pid string, all_recorded bool, s fullStats, places map[string]sums, all sums) {
	t.Helper()
	report, flat, cum := top(t, pid)
	if report.Exact == nil {
		t.Fatal("no exact figure")
	}
	same(t, "top's exact figure", *report.Exact, all.allocated)
	file := filepath.Join(t.TempDir(), "heap.pb")
	tool(t, "profile", pid, "-o", file)
	saved, _, _ := top(t, file)
	if saved.Exact == nil || saved.Requested == nil {
		t.Fatalf("%s does not say what it estimates", file)
	}
	same(t, "the profile's exact figure", *saved.Exact, all.allocated)
	about(t, "bytes requested, of the profile and stats", int64(*saved.Requested), int64(s.Sampling.Requested), 1)
	if !all_recorded {
		within(t, "requested", int64(s.Sampling.Requested), all.requested, s.Sampling.RequestedStderr)
		return
	}
	// The other allocations, of the start-up and of threads, may not be sampled.
	own := places["others"]
	about(t, "top's total", report.Total, all.allocated-own.allocated/2, own.allocated/2)
	if own.allocated > 16<<10 {
		t.Errorf("%d bytes are in use that are not the program's", own.allocated)
	}
	var requested, others int64
	for name, truth := range places {
		requested += truth.requested
		if name != "others" {
			same(t, name, flat[name], truth.allocated)
			same(t, name+" and what it calls", cum[name], truth.allocated) // nothing that the library itself allocates
			others -= truth.allocated
		}
	}
	for _, bytes := range flat {
		others += bytes
	}
	// For the others the requested size is unknown, but it is not more than the allocated size.
	about(t, "requested", int64(s.Sampling.Requested), requested+others/2, others/2+1)
	allocated, _, _ := top(t, pid, "--by", "alloc")
	if allocated.Allocated == nil {
		t.Fatal("no exact figure of what was allocated")
	}
	if *allocated.Allocated < all.allocated || *allocated.Allocated < allocated.Total || *report.Exact > *allocated.Allocated {
		t.Errorf("%d in use, %d by the samples, %d were ever allocated", *report.Exact, allocated.Total, *allocated.Allocated)
	}
}

// sameMemory: two commands must report the same resident memory. `moves`: memory is returned between them.
func sameMemory(t *testing.T, who string, got *residentMemory, moves bool, want residentMemory) {
	t.Helper()
	if got == nil {
		t.Errorf("%s does not say what is resident", who)
		return
	}
	same(t, who+": the parts of RSS", got.Live+got.Cached+got.Fragmentation+got.Metadata+got.NotOurs, got.RSS)
	same(t, who+": live_allocated", got.LiveAllocated, want.LiveAllocated)
	about(t, who+": live", got.Live, want.Live, got.Uncertain+want.Uncertain)
	if moves {
		return
	}
	same(t, who+": live", got.Live, want.Live)
	same(t, who+": cached", got.Cached, want.Cached)
	same(t, who+": fragmentation", got.Fragmentation, want.Fragmentation)
	same(t, who+": uncertain", got.Uncertain, want.Uncertain)
}

// mapAtRest returns the map and the statistics of one state of the heap. The helper thread takes large blocks out of
// the lists of idle threads, so statistics that were read a second ago may describe another state.
func mapAtRest(t *testing.T, pid string, moves bool, s fullStats) (mapSums, fullStats) {
	t.Helper()
	for {
		sum := mapOf(t, pid)
		var after fullStats
		parse(t, tool(t, "stats", pid, "--json"), &after)
		if after.Spans == s.Spans && (moves || after.Memory.Cached == s.Memory.Cached) {
			return sum, s
		}
		s = after
	}
}

// checkMap: spans contain the live blocks and the blocks in free lists; their resident parts are those of stats.
// Returns the statistics that it compared with.
func checkMap(t *testing.T, pid string, moves bool, s fullStats) fullStats {
	t.Helper()
	sum, s := mapAtRest(t, pid, moves, s)
	sameMemory(t, "the map", sum.memory, moves, s.Memory)
	if !moves {
		heading := "resident, as in `seemalloc stats`: live " + report.Bytes(float64(s.Memory.Live)) + ","
		if text := tool(t, "map", pid, "-n", "1"); !strings.Contains(text, heading) {
			t.Errorf("%q is not in\n%s", heading, text)
		}
	}
	same(t, "the map's live bytes", sum.live, s.Memory.LiveAllocated+s.Blocks.CachedBytes-s.Spans.CachedLargeBytes)
	same(t, "the map's free pages", sum.dirtyPages*8192, s.Spans.FreeDirtyBytes)
	if s.Memory.Fragmentation > sum.free+sum.holes+s.Memory.Uncertain {
		t.Errorf("resident between live blocks %d, the map has %d free there", s.Memory.Fragmentation, sum.free)
	}
	out := tool(t, "top", pid, "--kind", "fragmentation")
	found := regexp.MustCompile(`fragmentation: (\d+) bytes free in spans`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no exact figure in\n%s", out)
	}
	if exact, _ := strconv.ParseInt(found[1], 10, 64); exact > sum.free {
		t.Errorf("the profile has %d free in spans, the map %d", exact, sum.free)
	}
	found = regexp.MustCompile(`resident: (\d+) bytes between live blocks, as in the statistics; may be off by up to (\d+) bytes`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("it is not said what is resident in\n%s", out)
	}
	resident, _ := strconv.ParseInt(found[1], 10, 64)
	uncertain, _ := strconv.ParseInt(found[2], 10, 64)
	if resident > s.Memory.Fragmentation+uncertain {
		t.Errorf("resident between live blocks %d by the profile, %d by stats", resident, s.Memory.Fragmentation)
	}
	if !moves {
		same(t, "resident between live blocks, of the profile and stats", resident, s.Memory.Fragmentation)
		same(t, "what is uncertain of that", uncertain, s.Memory.Uncertain)
	}
	return s
}

// checkDoctor: the doctor uses the same figures, which may decrease meanwhile.
func checkDoctor(t *testing.T, pid string, s fullStats) {
	t.Helper()
	out, complaint, _ := try(t, "doctor", pid, "--json", "--for", "1s")
	var answer struct {
		Findings []struct {
			ID    string
			Value float64
		}
	}
	if complaint != "" {
		t.Fatal(complaint)
	}
	parse(t, out, &answer)
	found := -1.0
	for _, one := range answer.Findings {
		if one.ID == "fragmentation" {
			found = one.Value
		}
	}
	const mib = 1 << 20
	var after fullStats
	parse(t, tool(t, "stats", pid, "--json"), &after)
	if found > float64(s.Memory.Fragmentation+mib) || found < 0 && after.Memory.Fragmentation > 32*mib {
		t.Errorf("doctor finds fragmentation of %.0f, stats says %d", found, s.Memory.Fragmentation)
	}
}

// checkPage: the page's server reports the same as the commands. `moves`: memory is returned meanwhile.
func checkPage(t *testing.T, pid string, moves bool, s fullStats, all sums) {
	t.Helper()
	p := pageOf(t, pid)
	point := p.points[len(p.points)-1]
	same(t, "the page's parts", point.Live+point.Cached+point.Frag+point.Meta+point.Other, point.RSS)
	same(t, "the page's live bytes", point.Handed, all.allocated)
	checkStats(t, p.stats, all)
	about(t, "live on the page", point.Live, all.resident, p.stats.Memory.Uncertain)
	same(t, "what is uncertain on the page", point.Unsure, p.stats.Memory.Uncertain)
	same(t, "the live bytes of the page's map", p.live, p.stats.Memory.LiveAllocated+p.stats.Blocks.CachedBytes-p.stats.Spans.CachedLargeBytes)
	report, _, _ := top(t, pid)
	same(t, "in use by the page's profile", p.inuse, report.Total)
	if !moves {
		same(t, "fragmentation on the page", point.Frag, s.Memory.Fragmentation)
	}
	sameMemory(t, "the page's map", p.memory, moves, s.Memory)
}
