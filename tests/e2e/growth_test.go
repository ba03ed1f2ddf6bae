package e2e

import (
	"math"
	"strings"
	"testing"
	"time"
)

// growthResult is the part of `growth --json` that the tests read.
type growthResult struct {
	PID     int
	Seconds float64
	Moments int
	Growing []struct {
		Name, File     string
		Line           int
		Stack          []struct{ Name string }
		BytesPerS      float64 `json:"bytes_per_s"`
		StandardError  float64 `json:"standard_error"`
		Confidence     float64
		LiveBytes      float64 `json:"live_bytes"`
		Class          string
		SecondsToLimit float64                 `json:"seconds_to_limit"`
		BlockSizes     []struct{ Bytes int64 } `json:"block_sizes"`
	}
	Exact        float64 `json:"exact_bytes_per_s"`
	Unattributed bool
	Unseen       float64 `json:"unseen_bytes_per_s"`
}

func (g growthResult) names() string {
	var names []string
	for _, row := range g.Growing {
		names = append(names, row.Name)
	}
	return strings.Join(names, " ")
}

// growthOf looks at a process; the exit status must tell whether something grows.
func growthOf(t *testing.T, pid, lasts string) (g growthResult) {
	t.Helper()
	out, complaint, status := try(t, "growth", pid, "--for", lasts, "--json")
	if complaint != "" || status != 0 && status != foundStatus {
		t.Fatalf("status %d, %s", status, complaint)
	}
	parse(t, out, &g)
	if (status == foundStatus) != (len(g.Growing) > 0 || g.Unattributed) {
		t.Errorf("status %d with %d rows, unattributed %t", status, len(g.Growing), g.Unattributed)
	}
	return g
}

func startGrow(t *testing.T, way, rate string, flags ...string) *program {
	t.Helper()
	args := append(append([]string{binary, "run"}, flags...), "--", grow, way, rate)
	p := launch(t, nil, args...)
	waitFor(t, socketOf(p.pid))
	return p
}

// The first program's only growth is at a known function, and so the exact growth of all memory is the truth.
func TestGrowthNamesTheOwner(t *testing.T) {
	need(t)
	for _, test := range []struct{ way, rate, owner, class string }{
		{"leak", "2621440", "Session::Session", "leak-like"},
		{"cache", "3000000", "cache_put", "leak-like"},
		{"growing-evict", "6000000", "cache_put", "cache-like"},
	} {
		t.Run(test.way, func(t *testing.T) {
			t.Parallel()
			p := startGrow(t, test.way, test.rate)
			for range tries { // a busy machine may stop the program for a while
				g := growthOf(t, p.pid, "12s")
				if g.names() != test.owner {
					t.Logf("found %q instead of %s; unattributed %t", g.names(), test.owner, g.Unattributed)
					continue
				}
				row := g.Growing[0]
				if off := math.Abs(row.BytesPerS - g.Exact); off > 3.5*row.StandardError {
					t.Errorf("%.0f ± %.0f bytes/s; exactly %.0f", row.BytesPerS, row.StandardError, g.Exact)
				}
				if row.Class != test.class || row.Confidence < 0.95 || row.Line == 0 || !strings.HasSuffix(row.File, "grow.cc") ||
					len(row.BlockSizes) == 0 || row.SecondsToLimit <= 0 || row.LiveBytes <= 0 || row.StandardError <= 0 {
					t.Errorf("%+v", row)
				}
				return
			}
			t.Errorf("%s was not found", test.owner)
		})
	}
}

// A leak that is too slow for its samples is seen in the exact figures, and named after all if all blocks are recorded.
func TestSlowLeak(t *testing.T) {
	t.Parallel()
	need(t)
	p := startGrow(t, "leak", "51200")
	g := growthOf(t, p.pid, "12s")
	if g.Unseen < 51200 || len(g.Growing) == 0 && !g.Unattributed {
		t.Errorf("growth of 50 KiB/s: %+v", g)
	}
	p = startGrow(t, "leak", "51200", "--sample", "16K")
	for range tries {
		if g = growthOf(t, p.pid, "12s"); strings.HasPrefix(g.names(), "Session::Session") {
			return
		}
	}
	t.Errorf("with more samples: %+v", g)
}

func TestGrowthFindsNothingInSteadyPrograms(t *testing.T) {
	need(t)
	for _, way := range []string{"idle", "evict", "churn", "burst"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := startGrow(t, way, "6000000")
			expectClean(t, func() string {
				g := growthOf(t, p.pid, "8s")
				if g.Unseen <= 0 || g.Moments < 5 {
					t.Errorf("%+v", g)
				}
				return g.names()
			})
		})
	}
}

// A baseline, the difference of two profiles, and the table of that difference show the same figures of the same time.
func TestTheSameTimeHasTheSameFigures(t *testing.T) {
	need(t)
	for look := 1; ; look++ {
		p := startGrow(t, "leak", "5000000")
		before, after := p.pid+".before.pb.gz", p.pid+".after.pb.gz"
		before, after = work+"/"+before, work+"/"+after
		tool(t, "profile", p.pid, "-o", before)
		tool(t, "baseline", p.pid)
		time.Sleep(6 * time.Second)
		tool(t, "profile", p.pid, "-o", after)
		type figures struct {
			Total int64
			Error float64 `json:"standard_error"`
		}
		var since, based figures
		var diff, itself struct {
			Total struct {
				Change int64
				Error  float64 `json:"standard_error"`
			}
		}
		parse(t, tool(t, "top", p.pid, "--kind", "since", "--json"), &since)
		parse(t, tool(t, "top", after, "--base", before, "--json"), &based)
		parse(t, tool(t, "diff", before, after, "--json"), &diff)
		parse(t, tool(t, "diff", before, before, "--json"), &itself)
		p.stop()
		if itself.Total.Change != 0 || itself.Total.Error != 0 {
			t.Errorf("a profile and itself: %+v", itself.Total)
		}
		if based.Total != diff.Total.Change || math.Abs(based.Error-diff.Total.Error) > 0.01*based.Error {
			t.Errorf("top --base %+v, diff %+v", based, diff.Total)
		}
		// The program runs between the requests, on a busy machine for some time.
		const near = 0.25
		if math.Abs(float64(since.Total-based.Total)) < near*float64(based.Total) && math.Abs(since.Error-based.Error) < near*based.Error {
			return
		}
		if look == tries {
			t.Fatalf("since %+v, top --base %+v", since, based)
		}
	}
}
