package report

import (
	"strings"
	"testing"
	"time"

	"seemalloc/tool/attach"
)

func statsAt(ns int64, change func(*attach.Stats)) *attach.Stats {
	s := &attach.Stats{TimeNS: ns}
	change(s)
	return s
}

func TestStatIsTheDifference(t *testing.T) {
	before := statsAt(5e9, func(s *attach.Stats) {
		s.System.MinorFaults, s.System.RefaultBytes, s.Locks.SharedWaits, s.Threads.RemoteFrees = 100, 1e6, 1, 10
		s.System.Calls = attach.Calls{{Call: "mmap", Reason: "growth", Calls: 10, Bytes: 10, NS: 10}}
		s.SizeClasses = []attach.SizeClass{{Size: 16, Refills: 5}}
	})
	now := statsAt(7e9, func(s *attach.Stats) {
		s.Memory = attach.Memory{RSS: 4 << 20, LiveAllocated: 3 << 20, Dirty: 1 << 19, Live: 99}
		s.Blocks = attach.Blocks{CachedBytes: 1 << 18, FreeBytes: 1 << 18}
		s.System.MinorFaults, s.System.MajorFaults, s.System.RefaultBytes = 300, 4, 5e6
		s.Locks.SharedWaits, s.Locks.HeapWaits, s.Threads.RemoteFrees = 2, 5, 30
		s.System.Calls = attach.Calls{
			{Call: "mmap", Reason: "growth", Calls: 14, Bytes: 10, Refused: 2, NS: 10}, {Call: "munmap", Reason: "huge", Calls: 1, Bytes: 9e6},
			{Call: "munmap", Reason: "decay", Calls: 1, Bytes: 2e6},
			{Call: "mremap", Reason: "huge", Calls: 4}, {Call: "madvise:dontneed", Reason: "decay", Calls: 20, Bytes: 6e6, NS: 40e6},
			{Call: "madvise:nohugepage", Reason: "huge_pages", Calls: 1, Bytes: 7e6}, {Call: "madvise:free", Reason: "huge_pages", Calls: 1, Bytes: 7e6},
			{Call: "mmap", Reason: "report", Calls: 50, NS: 1e9},
		}
		s.SizeClasses = []attach.SizeClass{{Size: 16, Refills: 7}, {Size: 32, Refills: 4}}
	})
	want := Activity{
		Seconds: 2, RSS: 4 << 20, Live: 3 << 20, FreeBlocks: 1 << 19, Cached: 1 << 19, Dirty: 1 << 19, MinorFaults: 100, MajorFaults: 2, Madvise: 11, PurgedMB: 4,
		Mmap: 5, RefaultMB: 2, LockWaits: 3, RemoteFrees: 10, Refills: 3, Refused: 1, KernelCPU: 2,
	}
	if got := NewActivity(before, now); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := NewActivity(now, now); got.Madvise != 0 || got.KernelCPU != 0 {
		t.Errorf("no time between: %+v", got)
	}
	header, line := strings.Split(ActivityHeader(), "\n"), strings.TrimSuffix(want.Text(), "\n")
	if len(header) != 3 || len(header[0]) != len(line) || len(header[1]) != len(line) {
		t.Errorf("not below each other:\n%s%s", ActivityHeader(), line)
	}
	if got := strings.Join(strings.Fields(line), " "); got != "4.0 3.0 0.5 0.5 100 2 11 4.0 5 2.0 3 10 3 2.0" {
		t.Errorf("line %s", got)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Text(BinaryEdge) != "" || len(h.Buckets()) != 0 {
		t.Error("an empty histogram has rows")
	}
	for _, value := range []int64{4096, 4096, 8191, 5000, 65536, -1, 0, 1, 1 << 62} {
		h.Add(value)
	}
	total := int64(0)
	for i, bucket := range h.Buckets() {
		total += bucket.Count
		if bucket.Low >= bucket.High || i > 0 && bucket.Low != h.Buckets()[i-1].High {
			t.Errorf("row %d: %+v", i, bucket)
		}
		if want := map[int64]int64{0: 2, 1: 1, 4096: 4, 65536: 1, 1 << 62: 1}[bucket.Low]; bucket.Count != want && bucket.Low < 1<<61 {
			t.Errorf("%+v, want %d", bucket, want)
		}
	}
	if total != 9 {
		t.Errorf("%d counted", total)
	}
	var small Histogram
	for range 4 {
		small.Add(5000)
	}
	small.Add(20000)
	want := "[4K, 8K)                      4 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n" +
		"[8K, 16K)                     0 |                                                    |\n" +
		"[16K, 32K)                    1 |@@@@@@@@@@@@@                                       |\n"
	if got := small.Text(BinaryEdge); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEdges(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 512: "512", 1024: "1K", 3 << 20: "3M", 1 << 40: "1T", 1 << 50: "1P"} {
		if got := BinaryEdge(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0ns", 512: "512ns", 4096: "4us", 1 << 21: "2ms", 1 << 30: "1s"} {
		if got := NanosecondEdge(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 ns", 999: "999 ns", 12_300: "12.3 us", 4_560_000: "4.56 ms", 1_500_000_000: "1.50 s"} {
		if got := FormatNanos(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTraceTotals(t *testing.T) {
	var totals TraceTotals
	totals.Add(attach.Event{Call: "mmap", Reason: "growth", Bytes: 1 << 21, NS: 5000})
	totals.Add(attach.Event{Call: "mmap", Reason: "growth", Bytes: 1 << 21, NS: 7000, Refused: true})
	totals.Add(attach.Event{Call: "madvise:dontneed", Reason: "decay", Bytes: 8192, NS: 20000})
	text := totals.Text(2*time.Second, 3, 1)
	rest := text
	for _, want := range []string{ // in this order, the longest time first
		"\n@bytes[madvise:dontneed, decay]:\n[8K, 16K) ", "\n@took[madvise:dontneed, decay]:\n[16us, 32us) ",
		"\n@bytes[mmap, growth]:\n[2M, 4M)                      2 |", "\n@took[mmap, growth]:\n[4us, 8us)                    2 |",
		"\nmadvise:dontneed    decay               1     8.00 KiB        0    20.0 us    20.0 us\n",
		"mmap                growth              2     2.00 MiB        1    12.0 us     6.0 us\n", "all ",
		"\nTime in these calls: 0.00% of one CPU over 2.0s\nEvents lost 3 (overwritten before they were read), dropped 1 (not recorded)\n",
	} {
		at := strings.Index(rest, want)
		if at < 0 {
			t.Fatalf("%q is not in\n%s", want, rest)
		}
		rest = rest[at+len(want)-1:]
	}
	summary := totals.Summary(2*time.Second, 3, 1)
	if len(summary.Calls) != 2 || summary.Calls[1].Calls != 2 || summary.Calls[1].Refused != 1 || summary.Calls[1].Sizes[0].Count != 2 || summary.Lost != 3 {
		t.Errorf("%+v", summary)
	}
	var none TraceTotals
	if text := none.Text(time.Second, 0, 0); strings.Contains(text, "@") || !strings.Contains(text, "all ") {
		t.Errorf("of nothing:\n%s", text)
	}
}

func TestTraceColumnsAreAligned(t *testing.T) {
	e := attach.Event{TimeNS: 3_500_000_000, Call: "madvise:nohugepage", Reason: "huge_pages", Bytes: 1 << 21, NS: 9100, Thread: 8857, SizeClass: 16384}
	line := TraceLine(e, 1_000_000_000, "f a.c:1")
	if line != "  2.500000 madvise:nohugepage  huge_pages     2.00 MiB     9.1 us     8857  16,384  f a.c:1\n" {
		t.Errorf("%q", line)
	}
	if at := strings.Index(TraceHeader(), "place"); at != strings.Index(line, "f a.c") {
		t.Errorf("%s%s", TraceHeader(), line)
	}
	e.Refused = true
	if line := TraceLine(e, 0, "f"); !strings.HasSuffix(line, "f  REFUSED\n") {
		t.Errorf("%q", line)
	}
}

func TestRun(t *testing.T) {
	own := statsAt(1, func(s *attach.Stats) {
		s.Memory = attach.Memory{RSS: 1 << 20, LiveAllocated: 1 << 19}
		s.Locks = attach.Locks{SharedWaits: 1, HeapWaits: 2, HeapWaitNS: 1500, SharedShortWaits: 4, HeapShortWaits: 5}
		s.System.Calls = attach.Calls{{Call: "mmap", Reason: "growth", Calls: 1, Bytes: 4096, NS: 100}, {Call: "mmap", Reason: "report", Calls: 7}}
	})
	child := statsAt(1, func(s *attach.Stats) {
		s.System.Calls = attach.Calls{{Call: "mmap", Reason: "growth", Calls: 2, Bytes: 8192, NS: 200}}
	})
	facts := RunSummary{Command: "job", Status: "exit status 0", Elapsed: 1500 * time.Millisecond, AtExit: true}
	for _, test := range []struct {
		name     string
		own      *attach.Stats
		others   []*attach.Stats
		atExit   bool
		want     []string
		unwanted string
	}{
		{"alone", own, nil, true, []string{"job: exit status 0 after 1.50 s;", "At its end: RSS 1.00 MiB, live 512.0 KiB",
			"mmap                growth              1     4.00 KiB", "3 lock waits (1.5 us), 9 short ones"}, "total of"},
		{"with children", own, []*attach.Stats{child}, true, []string{"the total of 2 processes (itself and those that it started)", "growth              3    12.00 KiB"}, "last query"},
		{"killed", own, nil, false, []string{"statistics of the last query", "At its end"}, "total of"},
		{"children only", nil, []*attach.Stats{child}, false, []string{"these are the totals of 1 processes that it started", "growth              2"}, "At its end"},
		{"nothing", nil, nil, false, []string{"No statistics: "}, "call"},
	} {
		facts.AtExit = test.atExit
		text := Run(facts, test.own, test.others)
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", test.name, want, text)
			}
		}
		if strings.Contains(text, test.unwanted) || strings.Contains(text, "report") {
			t.Errorf("%s: too much in\n%s", test.name, text)
		}
	}
}

func TestDumpsAreCounted(t *testing.T) {
	for want, d := range map[string]attach.Dumps{
		"":                                 {},
		"Profiles written to files: 8\n\n": {Written: 8},
		"Profiles written to files: 8, older ones removed: 3; merged with another one that was waiting to be written: 13; " +
			"could not be written: 1 (last: no space left on device)\n\n": {Written: 8, Removed: 3, Merged: 13, Failed: 1, LastErrno: 28},
	} {
		var b strings.Builder
		if dumps(&b, d); b.String() != want {
			t.Errorf("%+v: %q, expected %q", d, b.String(), want)
		}
	}
}
