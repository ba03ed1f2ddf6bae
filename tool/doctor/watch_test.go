package doctor

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func number64(x float64) string { return strconv.FormatInt(int64(x), 10) }

// at returns a snapshot of the healthy process, this many milliseconds after its first snapshot.
func at(ms int64, edit func(s *Snapshot)) *Snapshot {
	s := healthy().Before
	s.Stats.TimeNS += ms * int64(time.Millisecond)
	s.refaults(0)
	s.Stats.System.MinorFaults = 0
	if edit != nil {
		edit(s)
	}
	return s
}

func TestWatchNeedsTwoSnapshots(t *testing.T) {
	w := Watch{Window: time.Second}
	if w.Diagnosis() != nil {
		t.Error("without a look")
	}
	w.Add(at(0, nil))
	if w.Diagnosis() != nil {
		t.Error("with one look")
	}
	w.Add(at(100, nil))
	if w.Diagnosis() != nil {
		t.Error("100 ms are no rate")
	}
	w.Add(at(500, nil))
	if d := w.Diagnosis(); d == nil || len(d.Checks) != len(checks) || d.Seconds != 0.5 || len(d.Findings) != 0 {
		t.Errorf("%+v", d)
	}
}

// A state that lasts from one snapshot to the next is found, and its worst value is shown.
func TestWatchReportsTheWorstState(t *testing.T) {
	w := Watch{Window: time.Hour}
	for i, used := range []int64{100, 365, 370, 100} {
		w.Add(at(int64(i)*500, func(s *Snapshot) { s.Limits[1].Used = used * mib }))
	}
	d := w.Diagnosis()
	if len(d.Findings) != 1 || !strings.HasPrefix(d.Findings[0].Figure, "370.0 MiB of 400.0 MiB") {
		t.Errorf("%+v", d.Findings)
	}
	for _, look := range d.Checks {
		if look.ID == "memory-limit" && !strings.HasPrefix(look.Text, "500.0 MiB of 1.00 GiB") {
			t.Errorf("not as it was last: %+v", look)
		}
	}
}

// Events in one window are not diluted by the other windows, and a short remainder is not a window.
func TestWatchJudgesRatesByTheWindow(t *testing.T) {
	copied := func(seconds int64) int64 { return min(max(seconds-4, 0), 2) * 70 * mib } // in the fifth and sixth second
	for _, test := range []struct {
		window time.Duration
		found  int
	}{{2 * time.Second, 1}, {20 * time.Second, 0}} {
		w := Watch{Window: test.window}
		for second := int64(0); second <= 20; second++ {
			w.Add(at(second*1000, func(s *Snapshot) { s.Stats.Realloc.CopiedBytes = copied(second) }))
		}
		if d := w.Diagnosis(); len(d.Findings) != test.found || d.Seconds != 20 {
			t.Errorf("%s: %+v", test.window, d.Findings)
		}
	}
	w := Watch{Window: 10 * time.Second}
	w.Add(at(0, nil))
	w.Add(at(10_000, nil))
	w.Add(at(11_000, func(s *Snapshot) { s.Stats.Realloc.CopiedBytes += 100 * mib }))
	if d := w.Diagnosis(); len(d.Findings) != 0 {
		t.Errorf("a tenth of a window was judged: %+v", d.Findings)
	}
}

func TestSeverityOrdersFindings(t *testing.T) {
	d := Examine(healthy().change(func(s *Snapshot, n int64) {
		s.Threads[1].RemoteFrees = n * 10 * remoteRate  // note
		s.Stats.Realloc.CopiedBytes = n * 10 * copyRate // warning
		s.Limits[1].Used = 399 * mib                    // severe
		s.refaults(n * 10 * stormRate)                  // warning
	}), All)
	var ids []string
	for _, finding := range d.Findings {
		ids = append(ids, finding.ID)
	}
	if got := strings.Join(ids, " "); got != "memory-limit purge-storm realloc-copies only-frees" {
		t.Error(got)
	}
	text := d.Text("shop (pid 42)")
	for _, want := range []string{"shop (pid 42), checked for 10.0 s: 4 findings\n", "\n1. SEVERE: The memory limit is near  [memory-limit]\n",
		"\n4. NOTE: ", "\n   Why:    ", "\n   Change: - ", "\n  !! the limit of a memory cgroup ", "\n  ok half-empty spans "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if before, _, _ := strings.Cut(text, "\nChecked\n"); strings.Contains(before, line) && len([]rune(line)) > width+1 {
			t.Errorf("too long: %s", line)
		}
	}
}
