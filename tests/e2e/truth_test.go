package e2e

import (
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// The benchmark programs with known truth; only the correctness is checked here: bench/profiling.py times them.

// workload builds a program of bench/workloads.
func workload(t *testing.T, name string) string {
	t.Helper()
	need(t)
	program := filepath.Join(t.TempDir(), name)
	if err := build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "-pthread", "-I../../core/include",
		"../../bench/workloads/"+name+".cc", "-o", program); err != nil {
		t.Fatal(err)
	}
	return program
}

// onLibrary runs a program that must succeed, and returns its output.
func onLibrary(t *testing.T, options string, command ...string) string {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Env = environment("LD_PRELOAD="+library, "SEEMALLOC_CONF="+options)
	out, complaint := finish(t, c, nil)
	if !c.ProcessState.Success() || complaint != "" {
		t.Fatalf("%v: %v\n%s", command, c.ProcessState, complaint)
	}
	return out
}

// Eight functions hold known shares, of blocks of 64 bytes to 3 MB; sampled more often than by default, so that 256 MB
// give as many samples as 2 GB. Six functions' estimates are normally distributed about the truth: each must be within
// 6 standard errors, and the mean of all runs within 6 of its own. Of the other two nearly every block is sampled:
// there the missing ones are counted. Correct profiles fail once in some million tests.
func TestEstimatesAreWithinTheirErrors(t *testing.T) {
	const runs, megabytes, interval = 10, "256", 64 << 10
	program, file := workload(t, "known_truth"), filepath.Join(t.TempDir(), "heap.pb")
	deviations := map[string]float64{}
	missed, expected, few := 0.0, 0.0, 0
	for range runs {
		printed := onLibrary(t, "sample:"+strconv.Itoa(interval), program, megabytes, file)
		_, _, held := top(t, file)
		for line := range strings.Lines(printed) {
			words := strings.Fields(line)
			if words[0] != "truth" {
				continue
			}
			bytes, _ := strconv.ParseInt(words[2], 10, 64)
			size, _ := strconv.ParseInt(words[3], 10, 64)
			without := math.Exp(-float64(size) / interval)
			if left := float64(bytes/size) * without; left < 10 {
				few++
				expected += left
				missed += math.Round((float64(bytes) - float64(held[words[1]])*(1-without)) / float64(size))
				continue
			}
			off := float64(held[words[1]]-bytes) / deviation(bytes/size, size, interval)
			if math.Abs(off) > 6 {
				t.Errorf("%s: %d, exactly %d: off by %.1f standard errors", words[1], held[words[1]], bytes, off)
			}
			deviations[words[1]] += off
		}
	}
	if len(deviations) != 6 || few != 2*runs {
		t.Fatalf("%d functions by chance, %d estimates of the others: the program held something else", len(deviations), few)
	}
	// Chernoff's bound for this many where about `expected` are expected.
	if missed < 0 || missed > expected && missed*math.Log(missed/expected)-missed+expected > onceInABillion {
		t.Errorf("%g blocks without a sample, about %.1f expected", missed, expected)
	}
	for name, sum := range deviations {
		if mean := sum / math.Sqrt(runs); math.Abs(mean) > 6 {
			t.Errorf("%s: the mean of %d runs is off by %.1f of its standard errors", name, runs, mean)
		}
	}
}

// 100,000 stacks, each of one block, written while another thread allocates and frees: pprof finds each of them exactly
// once.
func TestManyStacksAreAllInTheProfile(t *testing.T) {
	const stacks, depth, size = 100_000, 17, 64
	file := filepath.Join(t.TempDir(), "heap.pb")
	onLibrary(t, "sample:1", workload(t, "many_stacks"), strconv.Itoa(stacks), "2", file)
	p := profileOf(t, file)
	objects, space := indexOf(t, p, "inuse_objects"), indexOf(t, p, "inuse_space")
	seen, bytes := map[string]bool{}, int64(0)
	for _, sample := range p.Sample {
		if len(sample.Location) < depth || sample.NumLabel["bytes"][0] != size || sample.Value[objects] == 0 {
			continue
		}
		var key strings.Builder
		for _, loc := range sample.Location {
			key.WriteString(strconv.FormatUint(loc.Address, 16) + " ")
		}
		if seen[key.String()] || sample.Value[objects] != 1 {
			t.Fatalf("%d blocks of a stack that has one, seen before: %v", sample.Value[objects], seen[key.String()])
		}
		seen[key.String()] = true
		bytes += sample.Value[space]
	}
	if len(seen) != stacks || bytes != stacks*size {
		t.Errorf("%d stacks of %d, %d bytes", len(seen), stacks, bytes)
	}
	if text := strings.Join(p.Comments, "\n"); !strings.Contains(text, " 0 more dropped for lack of memory") || !strings.Contains(text, "; 0 samples with a truncated stack, 0 samples with a broken unwind") {
		t.Errorf("%s", text)
	}
}

func indexOf(t *testing.T, p *profile.Profile, name string) int {
	t.Helper()
	for i, kind := range p.SampleType {
		if kind.Type == name {
			return i
		}
	}
	t.Fatalf("no %s in %v", name, p.SampleType)
	return 0
}
