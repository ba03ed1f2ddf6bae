package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// phases collects the results of many runs of bench/workloads/phases.cc.
type phases struct {
	functions, totals []float64 // the deviation of each estimate, in units of its stated error
	wide              int       // totals whose stated error is more than 4 %
	far               []string  // estimates beyond three errors
}

// run adds the results of one program: of the functions that hold a twentieth or more, and of the total.
func (all *phases) run(t *testing.T, program, seed string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "heap.pb")
	printed := onLibrary(t, "", program, seed, file)
	truth, live := map[string]int64{}, int64(0)
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		bytes, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		truth[words[1]] = bytes
		live += bytes
	}
	report, _, _ := top(t, file)
	if report.Error > 0.04*float64(report.Total) {
		all.wide++
	}
	off := func(name string, estimate, exactly int64, error float64) float64 {
		if error == 0 && estimate == exactly {
			return 0
		}
		errors := float64(estimate-exactly) / error
		if !(math.Abs(errors) <= 3) {
			all.far = append(all.far, fmt.Sprintf("phases %s: %s: %d ± %.0f, exactly %d: off by %.1f errors", seed, name, estimate, error, exactly, errors))
		}
		return errors
	}
	// The program's other memory is less than a tenth of a percent.
	all.totals = append(all.totals, off("total", report.Total, live, report.Error))
	found := map[string]bool{}
	for _, f := range report.Functions {
		if bytes := truth[f.Name]; bytes >= live/20 {
			found[f.Name] = true
			all.functions = append(all.functions, off(f.Name, f.Cum, bytes, f.CumError))
		}
	}
	for name, bytes := range truth {
		if bytes >= live/20 && !found[name] {
			all.functions = append(all.functions, math.Inf(-1))
			all.far = append(all.far, fmt.Sprintf("phases %s: %s is absent, exactly %d", seed, name, bytes))
		}
	}
}

// spread returns how many estimates are more than three errors off, and the mean and mean square of the deviations,
// ideally 0 and 1.
func spread(errors []float64) (beyond int, mean, square float64) {
	for _, e := range errors {
		if !(math.Abs(e) <= 3) {
			beyond++
		}
		mean += e / float64(len(errors))
		square += e * e / float64(len(errors))
	}
	return beyond, mean, square
}

// Whatever a program did before, the bytes in use are within the stated errors: for functions of a twentieth and more,
// and for the total. For a normal estimate 0.27 % are beyond three errors. SEEMALLOC_PHASES_RUNS=1000 runs 1000
// programs, for hours.
func TestLongLivedBlocksAreSampledInAllPhases(t *testing.T) {
	runs, first := 12, 1
	if text := os.Getenv("SEEMALLOC_PHASES_RUNS"); text != "" {
		fmt.Sscanf(text, "%d", &runs)
		fmt.Sscanf(os.Getenv("SEEMALLOC_PHASES_FIRST"), "%d", &first)
	}
	program := workload(t, "phases")
	var all phases
	for seed := first; seed < first+runs; seed++ {
		all.run(t, program, strconv.Itoa(seed))
	}
	t.Log(strings.Join(all.far, "\n"))
	for name, errors := range map[string][]float64{"functions": all.functions, "totals": all.totals} {
		beyond, mean, square := spread(errors)
		n := float64(len(errors))
		t.Logf("%d %s: %d beyond three errors, mean %.2f, mean square %.2f", len(errors), name, beyond, mean, square)
		// This many more than expected occur in one of a million runs; the mean and the mean square are within five of
		// their errors.
		if limit := 3 + n*0.0027 + 5*math.Sqrt(n*0.0027); float64(beyond) > limit {
			t.Errorf("%d of %d %s beyond three errors", beyond, len(errors), name)
		}
		if math.Abs(mean) > 5/math.Sqrt(n) || square > 1+5*math.Sqrt(2/n) {
			t.Errorf("%s: mean %.2f, mean square %.2f", name, mean, square)
		}
	}
	// A few samples of a thread that had backed off far when the heap began to grow may add to it: in 1 of 250
	// programs.
	if all.wide > 1+runs/50 {
		t.Errorf("%d of %d totals are stated to more than 4 %%", all.wide, runs)
	}
}
