package e2e

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// jeprof runs Debian's jeprof and returns the total of in-use bytes, and the self bytes of each function.
func jeprof(t *testing.T, program, file string) (total int64, flat map[string]int64) {
	t.Helper()
	command, err := exec.LookPath("jeprof")
	if err != nil {
		t.Skip("needs jeprof (Debian's libjemalloc-dev)")
	}
	c := exec.Command(command, "--text", "--show_bytes", "--inuse_space", "--nodecount=100000", "--nodefraction=0", program, file)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	if err := c.Run(); err != nil {
		t.Fatalf("jeprof: %v\n%s", err, complaint.String())
	}
	flat = map[string]int64{}
	row := regexp.MustCompile(`^ *(\d+) +\S+% +\S+% +\d+ +\S+% (.*)$`)
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if number, is := strings.CutPrefix(line, "Total: "); is {
			total, _ = strconv.ParseInt(strings.TrimSuffix(number, " B"), 10, 64)
		}
		if m := row.FindStringSubmatch(line); m != nil {
			value, _ := strconv.ParseInt(m[1], 10, 64)
			flat[strings.TrimSuffix(m[2], " (inline)")] += value
		}
	}
	if total == 0 {
		t.Fatalf("jeprof found nothing:\n%s%s", out.String(), complaint.String())
	}
	return total, flat
}

// nearly: equal except for the rounding of single rows.
func nearly(t *testing.T, what string, got, want int64) {
	t.Helper()
	if math.Abs(float64(got-want)) > 1e-4*math.Abs(float64(want))+1 {
		t.Errorf("%s: %d instead of %d", what, got, want)
	}
}

// A profile converted to heap_v2 text shows the same in jeprof as in `seemalloc top`, and in top when it is read again.
func TestJeprofReadsHeapText(t *testing.T) {
	need(t)
	p := leak(t, 50, "--sample", "16K")
	heap := filepath.Join(t.TempDir(), "leaky.heap")
	report, flat, _ := top(t, p.pid)
	tool(t, "convert", p.pid, "-o", heap)
	again, flatAgain, _ := top(t, heap)
	nearly(t, "total, read again", again.Total, report.Total)
	for _, name := range []string{"leak_small", "leak_medium", "leak_large", "shop::Basket::put"} {
		nearly(t, name+", read again", flatAgain[name], flat[name])
	}
	if again.Error == 0 || math.Abs(again.Error/report.Error-1) > 0.01 {
		t.Errorf("standard error %g instead of %g", again.Error, report.Error)
	}
	total, theirs := jeprof(t, leaky, heap)
	nearly(t, "jeprof's total", total, report.Total)
	for _, name := range []string{"leak_small", "leak_medium"} {
		nearly(t, name+" in jeprof", theirs[name], flat[name])
	}
}

// Dumps of jemalloc itself can be opened, with jeprof's total and the program's functions.
func TestOpensJemallocProfiles(t *testing.T) {
	need(t)
	const jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
	if _, err := os.Stat(jemalloc); err != nil {
		t.Skip("needs jemalloc (Debian's libjemalloc2)")
	}
	dir := t.TempDir()
	c := exec.Command(leaky, "50")
	c.Env = append(environment(), "LD_PRELOAD="+jemalloc, "MALLOC_CONF=prof:true,prof_final:true,prof_accum:true,lg_prof_sample:14,prof_prefix:"+dir+"/je")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, _ := filepath.Glob(dir + "/je.*.heap")
	if len(files) != 1 {
		t.Skipf("this jemalloc was built without its profiler: %v", files)
	}
	report, flat, _ := top(t, files[0])
	sampled(t, "leak_small", flat["leak_small"], 50*2000, 64, 1<<14)
	sampled(t, "leak_large", flat["leak_large"], 50, 128<<10, 1<<14)
	if text := tool(t, "top", files[0]); !strings.Contains(text, "sampled once in 16.00 KiB") {
		t.Errorf("got %s", text)
	}
	_, alloc, _ := top(t, files[0], "--by", "alloc")
	sampled(t, "churn", alloc["churn"], 50*1000, 512, 1<<14)
	if total, _ := jeprof(t, leaky, files[0]); total != 0 {
		nearly(t, "total", report.Total, total)
	}
}

// A saved profile and the process later: the diff names the function that has grown, and by how much.
func TestDiffNamesTheLeak(t *testing.T) {
	need(t)
	const scale = 20
	p := leak(t, scale, "--sample", "1")
	before := filepath.Join(t.TempDir(), "before.pb.gz")
	tool(t, "profile", p.pid, "-o", before)
	p.tell(t, "m")
	var d struct {
		Total     struct{ Change int64 }
		Functions []struct {
			Name   string
			Change int64
			Error  float64 `json:"standard_error"`
		}
		Stacks []struct {
			Stack []string
			State string
		}
	}
	parse(t, tool(t, "diff", before, p.pid, "--json"), &d)
	if len(d.Functions) == 0 || d.Functions[0].Name != "leak_large" || d.Functions[0].Change != scale*128<<10 || d.Functions[0].Error != 0 {
		t.Fatalf("%+v", d)
	}
	// It was called from another line of main: the functions are the same, and so is the stack.
	if len(d.Stacks) == 0 || d.Stacks[0].Stack[0] != "leak_large" || d.Stacks[0].State != "" {
		t.Errorf("%+v", d.Stacks)
	}
	if out := tool(t, "tree", p.pid, "--focus", "^leak_large$"); !strings.Contains(out, "leak_large") || strings.Contains(out, "leak_small") {
		t.Errorf("%s", out)
	}
	if out := tool(t, "peek", p.pid, "^leak_medium$"); !strings.Contains(out, "|   in_thread\n") || !strings.Contains(out, "|   main\n") {
		t.Errorf("%s", out)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if out := tool(t, "list", p.pid, "^leak_large$", "--source-path", here); !strings.Contains(out, "new char[128 << 10];") {
		t.Errorf("%s", out)
	}
}

// The texts of libseemalloc_compat report the data they lack, in lines that pprof and jeprof skip and `seemalloc top`
// shows.
func TestTextsReportMissingData(t *testing.T) {
	need(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "heap_text")
	if err := build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "testdata/heap_text.cc", "-o", program); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, filepath.Join(dir, "text"))
	c.Env = environment("LD_PRELOAD="+filepath.Join(filepath.Dir(library), "libseemalloc_compat.so"), "SEEMALLOC_CONF=sample:1,stack_depth:16")
	if out, err := c.CombinedOutput(); err != nil || len(out) != 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"text.0001.heap", "text.jemalloc"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, note := range []string{"# seemalloc: every allocation is sampled; ", "; 10 samples with a truncated stack, 0 samples with a broken unwind\n",
				" live bytes, by allocated size\n", " 0 more dropped for lack of memory\n"} {
				if !bytes.Contains(data, []byte(note)) {
					t.Errorf("%q is not in\n%.600s", note, data)
				}
			}
			report, flat, held := top(t, file)
			if flat["hold"] != 2000*1024 || held["deep"] != 10*1024 {
				t.Errorf("hold has %d, deep %d", flat["hold"], held["deep"])
			}
			if out := tool(t, "top", file); !strings.Contains(out, "10 samples with a truncated stack") {
				t.Errorf("top does not say what is missing:\n%s", out)
			}
			if !strings.HasSuffix(name, ".jemalloc") { // pprof does not know this format
				p := profileOf(t, file)
				var total int64
				for _, sample := range p.Sample { // nothing was freed: pprof names the in-use types just objects and space
					total += sample.Value[len(sample.Value)-1]
				}
				nearly(t, "pprof's total", total, report.Total)
			}
			total, _ := jeprof(t, program, file)
			nearly(t, "jeprof's total", total, report.Total)
		})
	}
}
