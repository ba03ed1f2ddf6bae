package e2e

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// topReport is the part of `top --json` that the tests read.
type topReport struct {
	Total     int64
	Error     float64  `json:"standard_error"`
	Exact     *int64   `json:"exact_live"`
	Requested *float64 `json:"requested_live"`
	ExactMore *int64   `json:"exact_more"`
	Allocated *int64   `json:"exact_allocated"`
	Functions []struct {
		Name      string
		Line      int64
		Flat, Cum int64
		CumError  float64 `json:"cum_error"`
	}
}

func top(t *testing.T, target string, flags ...string) (report topReport, flat, cum map[string]int64) {
	t.Helper()
	parse(t, tool(t, append([]string{"top", target, "--json", "-n", "0"}, flags...)...), &report)
	flat, cum = map[string]int64{}, map[string]int64{}
	for _, f := range report.Functions {
		// Each module in Python has a <module>.
		flat[f.Name], cum[f.Name] = flat[f.Name]+f.Flat, max(cum[f.Name], f.Cum)
	}
	return report, flat, cum
}

// known is the memory that one function of leaky.cc allocates at a scale.
type known struct {
	name        string
	count, size int64
	kept        bool
}

func knownAt(scale int64) []known {
	return []known{
		{"leak_small", scale * 2000, 64, true},
		{"leak_medium", scale * 150, 1024, true}, // 50 of them in a thread
		{"leak_large", scale, 128 << 10, true},
		{"shop::Basket::put", scale * 200, 256, true}, // inlined into shop::fill
		{"churn", scale * 1000, 512, false},
	}
}

// deviation is the standard error of the estimate of count blocks of size bytes at a mean interval.
func deviation(count, size int64, interval float64) float64 {
	q := -math.Expm1(-float64(size) / interval)
	return float64(size) * math.Sqrt(float64(count)*(1-q)/q)
}

// within reports whether the estimate of a sum of many samples is within the promised error of the truth, which fails
// once in 500,000,000 times.
func within(t *testing.T, what string, got, want int64, deviation float64) {
	t.Helper()
	if off := math.Abs(float64(got - want)); off > 6*deviation+1 {
		t.Errorf("%s: %d, exactly %d: off by %.1f standard errors of %.0f", what, got, want, off/deviation, deviation)
	}
}

// rare returns how unlikely it is that this share of count trials, or one farther off, occurs by chance, where each has
// this probability: it happens less often than once in exp(rare) times, for any count (Chernoff's bound).
func rare(share, count, probability float64) float64 {
	part := func(a, b float64) float64 {
		if a <= 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	return count * (part(share, probability) + part(1-share, 1-probability))
}

// onceInABillion is the threshold of rare in these tests, which check it a hundred times in total.
const onceInABillion = 21

// sampled is within for count blocks of size bytes: the sampled blocks must stand for all, also for few blocks, and for
// large blocks, hardly any of which are missed.
func sampled(t *testing.T, what string, got, count, size int64, interval float64) {
	t.Helper()
	met := -math.Expm1(-float64(size) / interval)
	share := float64(got) / float64(count*size) * met
	if share > 1 && share < 1+1e-4 { // the printed figure is rounded
		share = 1
	}
	if !(share >= 0 && share <= 1) || rare(share, float64(count), met) > onceInABillion {
		t.Errorf("%s: %d, exactly %d: of %d blocks %.2f were met, expected %.2f", what, got, count*size, count, share, met)
	}
}

// Existing samples have the error of the interval with which they were drawn, whatever the interval is now.
func TestTopAfterTheIntervalHasChanged(t *testing.T) {
	need(t)
	p := leak(t, 300, "--sample", "64K")
	now := map[string]float64{}
	for _, by := range []string{"inuse", "alloc"} {
		report, _, _ := top(t, p.pid, "--by", by)
		now[by] = report.Error
	}
	for _, sample := range []string{"512K", "1", "0"} {
		tool(t, "set", p.pid, "sample="+sample)
		for by, want := range now {
			if report, _, _ := top(t, p.pid, "--by", by); math.Abs(report.Error/want-1) > 0.05 {
				t.Errorf("sample=%s: the standard error of %s is %.0f, and was %.0f", sample, by, report.Error, want)
			}
		}
		out := tool(t, "top", p.pid, "--by", "alloc", "--focus", "leak_large")
		if !strings.Contains(out, "(standard error; sampled once in 64.00 KiB on average)") {
			t.Errorf("sample=%s:\n%s", sample, out)
		}
	}
}

func TestTopEstimates(t *testing.T) {
	need(t)
	const scale, interval = 300, 64 << 10
	p := leak(t, scale, "--sample", "64K")
	report, inuse, cum := top(t, p.pid)
	allocated, alloc, _ := top(t, p.pid, "--by", "alloc")
	_, objects, _ := top(t, p.pid, "--unit", "objects")
	for _, k := range knownAt(scale) {
		sampled(t, k.name+" allocated", alloc[k.name], k.count, k.size, interval)
		if !k.kept {
			if inuse[k.name] != 0 {
				t.Errorf("%s holds %d bytes, but has freed all", k.name, inuse[k.name])
			}
			continue
		}
		sampled(t, k.name+" in use", inuse[k.name], k.count, k.size, interval)
		sampled(t, k.name+" objects", objects[k.name]*k.size, k.count, k.size, interval)
	}
	if cum["shop::fill"] != inuse["shop::Basket::put"] || cum["shop::fill"] == 0 {
		t.Errorf("shop::fill %d, its inlined function %d", cum["shop::fill"], inuse["shop::Basket::put"])
	}
	sampled(t, "in thread", cum["in_thread"], scale*50, 1024, interval)
	if report.Exact == nil {
		t.Fatal("no exact total")
	}
	within(t, "total", report.Total, *report.Exact, report.Error)
	if allocated.Allocated == nil || report.Allocated != nil {
		t.Fatalf("exactly allocated %v, and beside what is in use %v", allocated.Allocated, report.Allocated)
	}
	within(t, "all that was allocated", allocated.Total, *allocated.Allocated, allocated.Error)
	for _, f := range report.Functions {
		if regexp.MustCompile(`^(malloc|calloc|free|operator new.*|seemalloc::.*)$`).MatchString(f.Name) {
			t.Errorf("a function of the allocator is shown: %s", f.Name)
		}
	}
}

// With an interval of 1 there is nothing to estimate.
func TestTopExact(t *testing.T) {
	need(t)
	const scale = 3
	p := leak(t, scale, "--sample", "1")
	report, inuse, _ := top(t, p.pid)
	_, alloc, _ := top(t, p.pid, "--by", "alloc")
	_, objects, _ := top(t, p.pid, "--unit", "objects")
	for _, k := range knownAt(scale) {
		if alloc[k.name] != k.count*k.size {
			t.Errorf("%s allocated %d, exactly %d", k.name, alloc[k.name], k.count*k.size)
		}
		if k.kept && (inuse[k.name] != k.count*k.size || objects[k.name] != k.count) {
			t.Errorf("%s holds %d bytes in %d blocks, exactly %d in %d", k.name, inuse[k.name], objects[k.name], k.count*k.size, k.count)
		}
	}
	if report.Error != 0 {
		t.Errorf("standard error %g", report.Error)
	}
	p.tell(t, "m")
	if _, more, _ := top(t, p.pid); more["leak_large"] != 2*scale*128<<10 {
		t.Errorf("after more: leak_large %d", more["leak_large"])
	}
	p.tell(t, "f")
	_, left, _ := top(t, p.pid)
	for _, k := range knownAt(scale) {
		if left[k.name] != 0 {
			t.Errorf("after free: %s holds %d", k.name, left[k.name])
		}
	}
}

func TestTopText(t *testing.T) {
	need(t)
	p := leak(t, 100)
	out := tool(t, "top", p.pid)
	for _, want := range []string{"leaky (pid " + p.pid + "): bytes in use by function", "standard error; sampled once in 512.0 KiB", "exact live bytes: ", "cum%  function\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// A saved profile is read by both pprofs without complaint, with the same total.
func TestProfileIsReadByPprof(t *testing.T) {
	need(t)
	p := leak(t, 50, "--sample", "4K")
	for name, flags := range map[string][]string{"named": nil, "raw": {"--raw"}} {
		file := filepath.Join(t.TempDir(), name+".pb.gz")
		tool(t, append([]string{"profile", p.pid, "-o", file}, flags...)...)
		report, flat, _ := top(t, file)
		sampled(t, name+" leak_large", flat["leak_large"], 50, 128<<10, 4096)
		for _, pprof := range []string{"pprof", "github.com/google/pprof"} {
			c := exec.Command("go", "tool", pprof, "-top", "-unit=bytes", "-nodecount=0", "-nodefraction=0", file)
			c.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
			var out, complaint bytes.Buffer
			c.Stdout, c.Stderr = &out, &complaint
			if err := c.Run(); err != nil {
				t.Fatalf("%s: %v\n%s", pprof, err, complaint.String())
			}
			said := regexp.MustCompile(`(?m)^go: downloading .*\n`).ReplaceAllString(complaint.String(), "") // printed when it runs for the first time
			if said != "" && name == "named" {
				t.Errorf("%s complains: %s", pprof, said)
			}
			if want := fmt.Sprintf("of %dB total", report.Total); !strings.Contains(out.String(), want) {
				t.Errorf("%s of the %s profile does not say %q:\n%.400s", pprof, name, want, out.String())
			}
		}
	}
}

// The library writes a profile at exit, which the tool reads after the process has ended.
func TestDumpAtExit(t *testing.T) {
	need(t)
	file := filepath.Join(t.TempDir(), "exit.pb.gz")
	p := leak(t, 3, "--sample", "1", "--conf", "dump_at_exit:"+file)
	p.stdin.Close()
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, flat, _ := top(t, file); flat["leak_large"] != 3*128<<10 {
		t.Errorf("leak_large %d", flat["leak_large"])
	}
}
