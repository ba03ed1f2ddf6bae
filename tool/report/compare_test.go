package report

import (
	"strings"
	"testing"

	"seemalloc/tool/compare"
)

func TestSeconds(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0.00 ms", 0.00123: "1.23 ms", 0.0999: "99.9 ms", 0.0123: "12.3 ms", 0.5: "500 ms", 0.9994: "999 ms", 0.9996: "1.00 s", 1.234: "1.23 s",
		9.996: "10.0 s", 12.34: "12.3 s", 99.97: "100 s", 1234.4: "1,234 s",
	} {
		if got := Seconds(n); got != want {
			t.Errorf("Seconds(%g) = %s, want %s", n, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	r := &compare.Result{Command: []string{"job", "a b", "it's"}, Rounds: 5, Seed: 42,
		Allocators: []compare.Allocator{{Name: "glibc"}, {Name: "jemalloc", Library: "/lib/libjemalloc.so.2"}, {Name: "bad", Library: "/lib/bad.so"}},
		Missing:    []compare.Missing{{Name: "mimalloc", Package: "libmimalloc2.0"}},
		Excluded:   []compare.Excluded{{Name: "bad", Round: 1, Reason: "exit 1 instead of exit 0"}},
		Options:    []string{"MALLOC_CONF=x:1"},
	}
	for round := range 5 {
		step := float64(round) / 1000
		r.Runs = append(r.Runs,
			compare.Run{Allocator: "glibc", Threads: 1, Values: map[string]float64{"wall_s": 1.2, "cpu_s": 0.5 + step, "peak_rss": 10 << 20, "major_faults": 0, "switches": 0}},
			compare.Run{Allocator: "jemalloc", Threads: 1, Disturbed: round == 0, Values: map[string]float64{
				"wall_s": 1 + step, "cpu_s": 0.51 + step, "peak_rss": 2000 << 20, "major_faults": 0, "switches": 3 + float64(round)}},
			compare.Run{Allocator: "bad", Threads: 1, Values: map[string]float64{"wall_s": 0.1}})
	}
	r.Fill()
	want := `job 'a b' 'it'\''s'
5 rounds, 1 thread, seed 42
  glibc     the C library's own
  jemalloc  /lib/libjemalloc.so.2
  bad       /lib/bad.so

                                  glibc           jemalloc
wall time               1.20 s    1.20×    1.00 s     best
CPU (user + system)     502 ms     best    512 ms   ~1.02×
                             500–504 ms         510–514 ms
peak RSS             10.00 MiB     best  1.95 GiB     200×
major page faults            0                  0
context switches             0     best         5
                                                       3–7

Medians, their ratio to the best of the row, and below them the smallest and the largest run.
~: no difference to the best can be called: the spreads overlap, or times differ by less than 5 % (one
thread) or 15 % (two or more), or there are fewer than five runs.
RSS: of the largest process; final: its last reading (one every 20 ms) before the end.

bad failed in round 1 and is excluded: exit 1 instead of exit 0
mimalloc is not installed (Debian: libmimalloc2.0)
Allocator options in the environment: MALLOC_CONF=x:1
Other processes used more than 5 % of a CPU during 1 of 15 runs.
`
	if got := Compare(r); got != want {
		t.Errorf("got\n%s", got)
	}
	// An empty result is not a reason to fail.
	if text := Compare(&compare.Result{Command: []string{"x"}, Rounds: 1}); strings.Contains(text, "Medians") {
		t.Errorf("%s", text)
	}
}
