package doctor

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/growth"
)

// healthy returns two snapshots, ten seconds apart, of a process that does a little of everything. No check finds
// anything in it.
func healthy() Pair {
	look := func(seconds int64) *Snapshot {
		return &Snapshot{
			Stats: &attach.Stats{
				PID: 42, TimeNS: seconds * 1e9,
				Memory: attach.Memory{RSS: 200 * mib, Live: 150 * mib, Cached: 10 * mib, Fragmentation: 10 * mib, Metadata: mib, Foreign: 29 * mib,
					LiveAllocated: 150 * mib, Dirty: 5 * mib},
				Sampling: attach.Sampling{Interval: 512 * kib, Samples: 1000, LiveSamples: 300, Truncated: 10, Broken: 10},
				System: attach.System{MinorFaults: 1000 * seconds, RefaultBytes: mib * seconds, RefaultDelayedBytes: mib * seconds, Calls: attach.Calls{
					{Call: "madvise:dontneed", Reason: "decay", Calls: seconds, Bytes: 10 * mib * seconds},
					{Call: "mmap", Reason: "huge", Calls: seconds, Bytes: mib * seconds},
				}},
				Purge:       attach.Purge{Mode: "balanced", DelayMS: 1500},
				Spans:       attach.Spans{OwnedBytes: 100 * mib, EmptyBytes: 5 * mib, CentralBytes: 5 * mib},
				Large:       attach.Large{Blocks: 50, Bytes: 50 * mib},
				Realloc:     attach.Realloc{Copies: 1000 * seconds, CopiedBytes: mib * seconds},
				SizeClasses: []attach.SizeClass{{Size: 64, Spans: 100, Live: 100_000, Free: 1000}, {Size: 512, Spans: 1600, Live: 200_000, Free: 10_000}},
			},
			Threads: []attach.Thread{
				{TID: 42, ListBytes: mib, EmptyBytes: mib, Refills: 1000 * seconds, RemoteFrees: 1000 * seconds},
				{TID: 43, ListBytes: mib, EmptyBytes: mib, LargeBytes: mib, FreeBytes: 100 * mib},
			},
			Tasks:    map[int]Task{42: {"main", seconds * 5e8}, 43: {"sleeper", 1000}},
			Memory:   &Memory{RSS: 200 * mib, AnonHugePages: 100 * mib},
			Mappings: &attach.Mappings{Count: 200, Limit: 1000},
			Limits:   []Limit{{Group: "/", File: "memory.max", Bytes: gib, Used: 500 * mib}, {Group: "/a", File: "memory.high", Bytes: 400 * mib, Used: 210 * mib}},
			Options:  map[string]string{"purge_delay": "1000", "purge": "1", "thread_cache": "32M", "stack_depth": "64", "huge_pages": "1"},
			Heap:     heapProfile(),
			Remote:   &profile.Profile{},
		}
	}
	return Pair{Before: look(100), After: look(110), Growth: &growth.Result{Seconds: 10, Moments: 11, Steady: true}}
}

// row is one row of an artificial profile. The values are in the order of the types.
type row struct {
	function            string
	bytes, asked, moved int64
	values              []int64
}

var heapTypes = []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}

var fragmentationTypes = []string{"fragmentation_objects", "fragmentation_space"}

func heapProfile(rows ...row) *profile.Profile { return madeProfile(heapTypes, rows) }

func madeProfile(types []string, rows []row) *profile.Profile {
	p := &profile.Profile{PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 512 * kib}
	for _, name := range types {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "bytes"})
	}
	mapping := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x100000, File: "/bin/shop", HasFunctions: true}
	p.Mapping = []*profile.Mapping{mapping}
	caller := &profile.Location{ID: 1, Mapping: mapping, Address: 0x2000}
	p.Location = []*profile.Location{caller}
	addFunction(p, caller, "main")
	for i, r := range rows {
		loc := &profile.Location{ID: uint64(i + 2), Mapping: mapping, Address: 0x3000 + uint64(len(r.function))<<8 + uint64(i)}
		p.Location = append(p.Location, loc)
		addFunction(p, loc, r.function)
		s := &profile.Sample{Location: []*profile.Location{loc, caller}, Value: r.values, NumLabel: map[string][]int64{"bytes": {r.bytes}}}
		if r.asked != 0 {
			s.NumLabel["asked"] = []int64{r.asked}
		}
		if r.moved != 0 {
			s.NumLabel["moved"] = []int64{r.moved}
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func addFunction(p *profile.Profile, loc *profile.Location, name string) {
	f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "/src/shop.cc"}
	p.Function = append(p.Function, f)
	loc.Line = []profile.Line{{Function: f, Line: 7}}
}

// change edits both snapshots. n is 0 for the first and 1 for the second.
func (p Pair) change(edit func(s *Snapshot, n int64)) Pair {
	edit(p.Before, 0)
	edit(p.After, 1)
	return p
}

// refaults sets the number of bytes that were purged by the delay and reused soon after.
func (s *Snapshot) refaults(bytes int64) {
	s.Stats.System.RefaultBytes, s.Stats.System.RefaultDelayedBytes = bytes, bytes
}

// fragmented sets the MiB of resident memory between live blocks in spans.
func (s *Snapshot) fragmented(mebibytes int64) {
	s.Stats.Memory.Fragmentation = mebibytes * mib
	s.Stats.Spans.OwnedBytes = 200 * mib
}

func TestNoFindingsInAHealthyProcess(t *testing.T) {
	d := Examine(healthy(), All)
	if len(d.Findings) != 0 || len(d.Checks) != len(checks) || d.Seconds != 10 {
		t.Errorf("%+v", d)
	}
	for _, look := range d.Checks {
		if look.Missing != "" || look.Text == "" {
			t.Errorf("%+v", look)
		}
	}
}

// Each check has a finding at its threshold, and none just below it.
func TestThresholds(t *testing.T) {
	const seconds = 10
	class := func(live, free int64) attach.SizeClass {
		return attach.SizeClass{Size: 512, Spans: 2000, Live: live, Free: free}
	}
	for _, test := range []struct {
		name, id string
		severity Severity // "": no finding
		edit     func(s *Snapshot, n int64)
	}{
		{"refaults at the rate", "purge-storm", Warning, func(s *Snapshot, n int64) { s.refaults(n * seconds * stormRate) }},
		{"refaults below it", "purge-storm", "", func(s *Snapshot, n int64) { s.refaults(n * (seconds*stormRate - 1000)) }},
		{"refaults, severe", "purge-storm", Severe, func(s *Snapshot, n int64) { s.refaults(n * seconds * severeStormRate) }},
		{"refaults that are few of what goes", "purge-storm", "", func(s *Snapshot, n int64) {
			s.refaults(n * seconds * stormRate)
			s.Stats.System.Calls[0].Bytes = n * seconds * stormRate * 6
		}},
		{"what went at once", "purge-storm", Warning, func(s *Snapshot, n int64) {
			s.Stats.System.MinorFaults, s.Stats.System.RefaultBytes = n*seconds*10_000, n*seconds*stormRate
		}},
		{"what went at once, not touched", "purge-storm", "", func(s *Snapshot, n int64) {
			s.Stats.System.RefaultBytes = n * seconds * stormRate
		}},
		{"holes", "purge-storm", Warning, func(s *Snapshot, n int64) { s.Stats.Purge.HoleRefilled = n * seconds * stormRate }},

		{"half of a class free", "fragmentation", Warning, func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_000, 80_000)
		}},
		{"less than half of it", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
		}},
		{"half of a small class", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(30_000, 30_000)
		}},
		{"half of it free, not resident", "fragmentation", "", func(s *Snapshot, _ int64) { s.Stats.SizeClasses[1] = class(80_000, 80_000) }},
		{"half of it free, now only", "fragmentation", "", func(s *Snapshot, n int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_000, 80_000*n)
		}},
		{"half of many classes that are small alone", "fragmentation", Warning, func(s *Snapshot, _ int64) {
			s.fragmented(50)
			for size := int64(1000); size < 1010; size++ {
				s.Stats.SizeClasses = append(s.Stats.SizeClasses, attach.SizeClass{Size: size, Spans: 100, Live: 2500, Free: 2500})
			}
		}},
		{"half of too few", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			for size := int64(1000); size < 1008; size++ {
				s.Stats.SizeClasses = append(s.Stats.SizeClasses, attach.SizeClass{Size: size, Spans: 100, Live: 2500, Free: 2500})
			}
		}},
		{"less than half, kept by one place", "fragmentation", Warning, func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, 26 * mib}}, {"other", 512, 0, 0, []int64{100_000, 2 * mib}}})
		}},
		{"kept by one place, by one sample", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{1024, 40 * mib}}})
		}},
		{"kept by one place, which holds as much of other sizes", "fragmentation", Warning, func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, 40 * mib}}})
			s.Heap = heapProfile(row{"keep", 512, 0, 0, []int64{1, 1, 80_000, 39 * mib}}, row{"keep", 64, 0, 0, []int64{1, 1, 1_000_000, 60 * mib}})
		}},
		{"kept by one place, which holds more than is free", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, 40 * mib}}})
			s.Heap = heapProfile(row{"keep", 512, 0, 0, []int64{1, 1, 90_000, 41 * mib}})
		}},
		{"kept by one place, and more by another now only", "fragmentation", Warning, func(s *Snapshot, n int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, 30 * mib}}, {"other", 512, 0, 0, []int64{100_000, n * 60 * mib}}})
		}},
		{"less than half, kept by several", "fragmentation", "", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, 24 * mib}}, {"other", 512, 0, 0, []int64{100_000, 24 * mib}}})
		}},
		{"less than half, kept by one place now only", "fragmentation", "", func(s *Snapshot, n int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1] = class(80_001, 80_000)
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{100_000, n * 40 * mib}}})
		}},
		{"half of all memory", "fragmentation", Severe, func(s *Snapshot, _ int64) {
			s.fragmented(110)
			s.Stats.SizeClasses[1] = class(1000, 250_000)
		}},

		{"a thread that only frees", "only-frees", Note, func(s *Snapshot, n int64) { s.Threads[1].RemoteFrees = n * seconds * remoteRate }},
		{"it frees less", "only-frees", "", func(s *Snapshot, n int64) { s.Threads[1].RemoteFrees = n * (seconds*remoteRate - 10) }},
		{"it frees much", "only-frees", Warning, func(s *Snapshot, n int64) { s.Threads[1].RemoteFrees = n * seconds * severeRemoteRate }},
		{"it allocates too", "only-frees", "", func(s *Snapshot, n int64) {
			s.Threads[1].RemoteFrees, s.Threads[1].Refills = n*seconds*remoteRate, n*seconds*remoteRate/50
		}},
		{"its heap was another thread's", "only-frees", "", func(s *Snapshot, n int64) {
			s.Threads[1].RemoteFrees = n * seconds * remoteRate
			s.Threads[1].TID += int(n)
		}},

		{"an idle thread", "hoarding", Warning, func(s *Snapshot, _ int64) { s.Threads[1].ListBytes = 20 * mib }},
		{"below a tenth of all memory", "hoarding", "", func(s *Snapshot, _ int64) { s.Threads[1].ListBytes = 17 * mib }},
		{"it works", "hoarding", "", func(s *Snapshot, n int64) {
			s.Threads[1].ListBytes = 20 * mib
			s.Tasks[43] = Task{"worker", n * seconds * 2e7}
		}},
		{"it comes to its heap", "hoarding", "", func(s *Snapshot, n int64) { s.Threads[1].ListBytes, s.Threads[1].Refills = 20*mib, n }},
		{"the kernel does not know it", "hoarding", "", func(s *Snapshot, _ int64) {
			s.Threads[1].ListBytes = 20 * mib
			delete(s.Tasks, 43)
		}},

		{"huge pages that are unused", "huge-pages", Warning, func(s *Snapshot, _ int64) { s.Stats.Memory.Fragmentation += 20 * mib }},
		{"few", "huge-pages", "", func(s *Snapshot, _ int64) { s.Stats.Memory.Fragmentation += 14 * mib }},
		{"no huge pages", "huge-pages", "", func(s *Snapshot, _ int64) {
			s.Stats.Memory.Fragmentation += 20 * mib
			s.Memory.AnonHugePages = 0
		}},

		{"copies at the rate", "realloc-copies", Warning, func(s *Snapshot, n int64) { s.Stats.Realloc.CopiedBytes = n * seconds * copyRate }},
		{"below it", "realloc-copies", "", func(s *Snapshot, n int64) { s.Stats.Realloc.CopiedBytes = n * (seconds*copyRate - 1000) }},
		{"severe", "realloc-copies", Severe, func(s *Snapshot, n int64) { s.Stats.Realloc.CopiedBytes = n * seconds * severeCopyRate }},

		{"over-aligned blocks", "over-alignment", Warning, func(s *Snapshot, _ int64) {
			s.Heap = heapProfile(row{"f", 4096, 128, 0, []int64{5000, 0, 5000, 0}})
		}},
		{"fewer", "over-alignment", "", func(s *Snapshot, _ int64) {
			s.Heap = heapProfile(row{"f", 4096, 128, 0, []int64{5000, 0, 4100, 0}})
		}},
		{"large blocks with nothing to spare", "over-alignment", "", func(s *Snapshot, _ int64) {
			s.Heap = heapProfile(row{"f", 4096, 0, 0, []int64{50000, 0, 50000, 0}})
		}},

		{"near a limit", "memory-limit", Warning, func(s *Snapshot, _ int64) { s.Limits[1].Used = 360 * mib }},
		{"not so near", "memory-limit", "", func(s *Snapshot, _ int64) { s.Limits[1].Used = 359 * mib }},
		{"at it", "memory-limit", Severe, func(s *Snapshot, _ int64) { s.Limits[1].Used = 390 * mib }},
		{"met it meanwhile", "memory-limit", Severe, func(s *Snapshot, n int64) { s.Limits[1].Used, s.Limits[1].Failures = 360*mib, 5+n }},
		{"met it long ago", "memory-limit", Warning, func(s *Snapshot, _ int64) { s.Limits[1].Used, s.Limits[1].Failures = 360*mib, 5 }},

		{"three quarters of the mappings", "mappings", Warning, func(s *Snapshot, _ int64) { s.Mappings.Count = 750 }},
		{"less than that", "mappings", "", func(s *Snapshot, _ int64) { s.Mappings.Count = 749 }},
		{"nearly all mappings", "mappings", Severe, func(s *Snapshot, _ int64) { s.Mappings.Count = 960 }},
		{"one sample dropped", "samples-lost", Warning, func(s *Snapshot, _ int64) { s.Stats.Sampling.Dropped = 1 }},
		{"a tenth cut", "samples-lost", Note, func(s *Snapshot, _ int64) { s.Stats.Sampling.Truncated = 100 }},
		{"less than a tenth", "samples-lost", "", func(s *Snapshot, _ int64) { s.Stats.Sampling.Truncated = 99 }},
		{"broken", "samples-lost", Note, func(s *Snapshot, _ int64) { s.Stats.Sampling.Broken = 100 }},
		{"few samples", "samples-lost", "", func(s *Snapshot, _ int64) { s.Stats.Sampling.Samples, s.Stats.Sampling.Broken = 99, 99 }},
	} {
		t.Run(test.id+": "+test.name, func(t *testing.T) {
			d := Examine(healthy().change(test.edit), All)
			switch {
			case test.severity == "" && len(d.Findings) != 0:
				t.Errorf("found %+v", d.Findings)
			case test.severity != "" && (len(d.Findings) != 1 || d.Findings[0].ID != test.id || d.Findings[0].Severity != test.severity):
				t.Errorf("found %+v", d.Findings)
			case test.severity != "":
				f := d.Findings[0]
				if f.Title == "" || f.Figure == "" || f.Why == "" || len(f.Change) == 0 || f.Value <= 0 {
					t.Errorf("incomplete: %+v", f)
				}
			}
		})
	}
}

func TestFindingsNameTheirSites(t *testing.T) {
	alloc := func(n, bytes int64) []int64 { return []int64{n, bytes, 0, 0} }
	inuse := func(n, bytes int64) []int64 { return []int64{n, bytes, n, bytes} }
	for _, test := range []struct {
		id    string
		sites string // location and bytes of each site
		edit  func(s *Snapshot, n int64)
	}{
		{"purge-storm", "receive 102400, drop 51200", func(s *Snapshot, n int64) {
			s.refaults(n * 10 * stormRate)
			s.Heap = heapProfile(row{"receive", 8192, 0, 0, alloc(0, 5000+n*1024000)}, row{"drop", 8192, 0, 0, alloc(0, n*512000)},
				row{"small", 64, 0, 0, alloc(0, n*9024000)}, row{"rare", 8192, 0, 0, alloc(0, n*500)}, row{"before", 8192, 0, 0, alloc(0, 1<<30)})
		}},
		{"fragmentation", "keep 51200", func(s *Snapshot, _ int64) {
			s.fragmented(50)
			s.Stats.SizeClasses[1].Free = 300_000
			s.Heap = heapProfile(row{"keep", 512, 0, 0, inuse(100, 51200)}, row{"other", 64, 0, 0, inuse(100, 6400)})
		}},
		{"fragmentation", "keep 3000, table 1000", func(s *Snapshot, _ int64) { // the site that keeps the most counts, and not the one that holds the most
			s.fragmented(50)
			s.Stats.SizeClasses[1].Free = 300_000
			s.Heap = heapProfile(row{"keep", 512, 0, 0, inuse(100, 51200)}, row{"table", 512, 0, 0, inuse(10000, 5120000)})
			s.Fragmentation = madeProfile(fragmentationTypes, []row{{"keep", 512, 0, 0, []int64{10, 3000}}, {"table", 512, 0, 0, []int64{10, 1000}},
				{"small", 64, 0, 0, []int64{10, 9000}}})
		}},
		{"only-frees", "make 100", func(s *Snapshot, n int64) {
			s.Threads[1].RemoteFrees = n * 10 * remoteRate
			s.Remote = madeProfile([]string{"remote_free_objects", "remote_free_space"}, []row{{"make", 64, 0, 0, []int64{0, 3000 + n*1000}}})
		}},
		{"realloc-copies", "grow 1000", func(s *Snapshot, n int64) {
			s.Stats.Realloc.CopiedBytes = n * 10 * copyRate
			s.Heap = heapProfile(row{"grow", 512, 0, 1, alloc(0, n*10000)}, row{"other", 512, 0, 0, alloc(0, n*10000)})
		}},
		{"over-alignment", "align 39680000", func(s *Snapshot, _ int64) {
			s.Heap = heapProfile(row{"align", 4096, 128, 0, inuse(10000, 40960000)}, row{"other", 4096, 0, 0, inuse(10000, 40960000)})
		}},
		{"memory-limit", "big 1000, small 100", func(s *Snapshot, _ int64) {
			s.Limits[1].Used = 380 * mib
			s.Heap = heapProfile(row{"small", 10, 0, 0, inuse(10, 100)}, row{"big", 10, 0, 0, inuse(100, 1000)}, row{"freed", 1000, 0, 0, alloc(100, 100000)})
		}},
	} {
		d := Examine(healthy().change(test.edit), All)
		if len(d.Findings) != 1 || d.Findings[0].ID != test.id {
			t.Errorf("%s: found %+v", test.id, d.Findings)
			continue
		}
		var got []string
		for _, site := range d.Findings[0].Sites {
			got = append(got, strings.TrimSuffix(site.Place, " shop.cc:7")+" "+number64(site.Bytes))
			if site.Stack[len(site.Stack)-1] != "main shop.cc:7" {
				t.Errorf("%s: %+v", test.id, site)
			}
		}
		if strings.Join(got, ", ") != test.sites {
			t.Errorf("%s: got %q, want %q", test.id, got, test.sites)
		}
	}
}

func TestHiddenFunctionsAreNoSites(t *testing.T) {
	d := Examine(healthy().change(func(s *Snapshot, _ int64) {
		s.Limits[1].Used = 380 * mib
		s.Hide = regexp.MustCompile("^z?malloc")
		s.Heap = heapProfile(row{"zmalloc", 10, 0, 0, []int64{1, 10, 1, 10}}, row{"other", 10, 0, 0, []int64{1, 10, 1, 10}})
	}), State)
	if len(d.Findings) != 1 || len(d.Findings[0].Sites) != 2 || d.Findings[0].Sites[0].Place != "main shop.cc:7" {
		t.Errorf("%+v", d.Findings)
	}
}

// Missing data is reported and causes no finding.
func TestMissingDataIsReported(t *testing.T) {
	d := Examine(healthy().change(func(s *Snapshot, _ int64) {
		s.Threads, s.Tasks, s.Memory, s.Limits, s.Heap, s.Remote, s.Options = nil, nil, nil, nil, nil, nil, nil
	}), All)
	missing := map[string]bool{}
	for _, look := range d.Checks {
		missing[look.ID] = look.Missing != ""
	}
	if len(d.Findings) != 0 || !missing["only-frees"] || !missing["hoarding"] || !missing["huge-pages"] || !missing["memory-limit"] ||
		!missing["over-alignment"] || missing["purge-storm"] || missing["fragmentation"] {
		t.Errorf("%+v", d)
	}
	// A finding without a profile has no sites.
	d = Examine(healthy().change(func(s *Snapshot, n int64) {
		s.Heap, s.Remote = nil, nil
		s.Stats.Realloc.CopiedBytes = n * 10 * copyRate
		s.refaults(n * 10 * stormRate)
		s.Threads[1].RemoteFrees = n * 10 * remoteRate
	}), All)
	if len(d.Findings) != 3 || len(d.Findings[0].Sites) != 0 {
		t.Errorf("%+v", d.Findings)
	}
}

func TestAdviceDependsOnTheOptions(t *testing.T) {
	advice := func(options map[string]string, edit func(s *Snapshot, n int64)) string {
		d := Examine(healthy().change(func(s *Snapshot, n int64) {
			s.Options = options
			edit(s, n)
		}), Rate)
		return strings.Join(d.Findings[0].Change, "\n")
	}
	byDelay := func(s *Snapshot, n int64) { s.refaults(n * 10 * stormRate) }
	// Memory purged for a reason other than the decay of a healthy process, and reused.
	atOnce := func(call, reason string) func(s *Snapshot, n int64) {
		return func(s *Snapshot, n int64) {
			s.Stats.System.MinorFaults, s.Stats.System.RefaultBytes = n*1_000_000, n*20*stormRate
			s.Stats.System.Calls = append(s.Stats.System.Calls, attach.CallCount{Call: call, Reason: reason, Bytes: n * 20 * stormRate})
		}
	}
	defaults := map[string]string{"purge": "balanced", "purge_delay": "auto", "free_ratio": "0"}
	for _, test := range []struct {
		want    string
		options map[string]string
		edit    func(s *Snapshot, n int64)
	}{
		{"seemalloc set 42 purge=balanced", map[string]string{"purge": "eager", "purge_delay": "1000"}, byDelay},
		{"seemalloc set 42 purge_delay=auto", map[string]string{"purge": "balanced", "purge_delay": "0"}, byDelay},
		{"seemalloc set 42 purge_delay=2000", map[string]string{"purge": "balanced", "purge_delay": "500"}, byDelay},
		{"is 1500 ms now", defaults, byDelay},
		{"seemalloc set 42 free_ratio=0", map[string]string{"purge": "balanced", "purge_delay": "auto", "free_ratio": "10"}, byDelay},
		{"pages between live blocks: `malloc_trim`", defaults, func(s *Snapshot, n int64) { s.Stats.Purge.HoleRefilled = n * 10 * stormRate }},
		{"malloc_trim", defaults, atOnce("madvise:dontneed", "requested")},
		{"malloc_trim", map[string]string{"purge": "eager"}, atOnce("munmap", "requested")},
		{"limit of the memory cgroup", defaults, atOnce("madvise:dontneed", "pressure")},
		{"seemalloc set 42 purge=never", defaults, atOnce("munmap", "decay")},
		{"seemalloc set 42 purge=balanced", map[string]string{"purge": "eager"}, atOnce("munmap", "decay")},
	} {
		if got := advice(test.options, test.edit); !strings.Contains(got, test.want) {
			t.Errorf("%q is not in %q", test.want, got)
		}
	}
}

// Mappings are those of the last snapshot, under their JSON names.
func TestDiagnosisHasTheMappings(t *testing.T) {
	p := healthy()
	p.Before.Mappings = &attach.Mappings{Count: 1, Limit: 1000}
	d := Examine(p, All)
	later := healthy()
	later.After.Mappings = &attach.Mappings{Count: 300, Limit: 1000}
	d.MergeWorse(Examine(later, State))
	later.After.Mappings = nil
	d.MergeWorse(Examine(later, State))
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"mappings":{"count":300,"limit":1000}`) {
		t.Errorf("%s %v", text, err)
	}
}

func TestMissingProfileHasAReason(t *testing.T) {
	missing := func(change func(*Snapshot)) string {
		p := healthy()
		for _, s := range []*Snapshot{p.Before, p.After} {
			s.Heap = nil
			change(s)
		}
		for _, look := range Examine(p, All).Checks {
			if look.ID == "over-alignment" {
				return look.Missing
			}
		}
		return ""
	}
	for _, test := range []struct {
		name   string
		change func(*Snapshot)
		want   []string
		not    string
	}{
		{"minimal", func(s *Snapshot) { s.HeapRefusal = "this is the library without a profiler (minimal)" }, []string{"has no profiler"}, "mappings"},
		{"no memory", func(s *Snapshot) { s.HeapRefusal = "no memory for the profile" }, []string{"no memory for the profile"}, "has no profiler"},
		{"no mappings", func(s *Snapshot) {
			s.HeapRefusal = "no memory for the profile"
			s.Mappings = &attach.Mappings{Count: 65_529, Limit: 65_530}
		}, []string{"no memory for the profile", "65,529 mappings", "65,530", "vm.max_map_count"}, "has no profiler"},
	} {
		got := missing(test.change)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", test.name, want, got)
			}
		}
		if strings.Contains(got, test.not) {
			t.Errorf("%s: %q is in %q", test.name, test.not, got)
		}
	}
}
