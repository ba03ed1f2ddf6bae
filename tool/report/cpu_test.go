package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// Stacks are written innermost first. Names in brackets are kernel functions, and names after a / belong to the C
// library.
func timeProfile(rows map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000, DurationNanos: 2_000_000_000,
		Mapping: []*profile.Mapping{{ID: 1, File: "/bin/program"}, {ID: 2, File: KernelFile}, {ID: 3, File: "/lib/x86_64-linux-gnu/libc.so.6"}},
	}
	for stack, count := range rows {
		sample := &profile.Sample{Value: []int64{count, count * p.Period}}
		for _, name := range strings.Fields(stack) {
			mapping := p.Mapping[0]
			if plain := strings.Trim(name, "[]"); plain != name {
				name, mapping = plain, p.Mapping[1]
			} else if plain, is := strings.CutPrefix(name, "/"); is {
				name, mapping = plain, p.Mapping[2]
			}
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			p.Function = append(p.Function, f)
			l := &profile.Location{ID: f.ID, Mapping: mapping, Line: []profile.Line{{Function: f}}}
			p.Location = append(p.Location, l)
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestCPUComments(t *testing.T) {
	p := timeProfile(map[string]int64{"inner outer": 30, "outer": 10})
	p.Comments = []string{
		"seemalloc: CPU time, each thread interrupted every 10000000 ns of it; interrupts 41, evictions 3, lost 1",
		"cpu: the process used 1500000000 ns; the samples stand for 400000000 ns, the lost ones for 10000000 ns",
		"stacks: 2 distinct; 4 samples with a truncated stack, 5 samples with a broken unwind",
		"threads: 7 had a timer, 2 were refused one", "ended early: the program has set ITIMER_PROF",
		"seemalloc: CPU time, each thread interrupted every 10000000 ns of it; interrupts 1, evictions 0, lost 2",
	}
	c := NewCPU(p)
	want := CPU{Samples: 40, Duration: 2_000_000_000, Period: 10_000_000, Used: 1_500_000_000, Lost: 3, Truncated: 4, Broken: 5, Refused: 2,
		Ended: "the program has set ITIMER_PROF"}
	if c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if note := Unprofiled(p, 1_590*time.Millisecond); note != nil {
		t.Errorf("of what each process leaves out: %q", note)
	}
	note := Unprofiled(p, 2_500*time.Millisecond)
	if len(note) != 1 || NewCPU(&profile.Profile{Comments: note}).Unprofiled != 1_000_000_000 {
		t.Errorf("got %q", note)
	}
	c.Unprofiled = 1_000_000_000
	if text := c.Text(400_000_000); !strings.Contains(text, "1.00 s of CPU time of processes that left no profile") {
		t.Error(text)
	}
	c.Unprofiled = 0
	text := c.Text(400_000_000)
	for _, part := range []string{
		"Total 400.00 ms of CPU time in 2.00 s: 40 samples, one per 10.00 ms of a thread's CPU time; the process used 1.50 s\n",
		"Missing: 3 samples lost for lack of space, 4 truncated stacks (option stack_depth; with --kernel below the top 16 KiB), 5 stacks whose unwinding failed, 2 threads without a timer",
		", 73.33% of the CPU time (threads that block SIGPROF", "Ended early: the program has set ITIMER_PROF\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	c.Part = true
	if text := c.Text(400_000_000); strings.Contains(text, "of the CPU time (") {
		t.Errorf("what other threads used is said to be missing:\n%s", text)
	}
	if text := (CPU{Samples: 1, Period: 1000, Used: 1000}).Text(1000); strings.Contains(text, "Missing") {
		t.Error(text)
	}
}

func TestSystemLibraries(t *testing.T) {
	for file, is := range map[string]bool{
		"/lib/x86_64-linux-gnu/libc.so.6": true, "/usr/lib/libc-2.31.so": true, "/lib64/ld-linux-x86-64.so.2": true, "/usr/lib/libstdc++.so.6.0.30": true,
		"/opt/lib/libseemalloc_minimal.so": true, "/usr/lib/libtcmalloc.so.4": true, "/usr/lib/libsnmallocshim.so": true,
		"/usr/lib/llvm-14/lib/libc++.so.1.0": true, "/usr/lib/libcurl.so.4": false, "/usr/lib/libmysqlclient.so.21": false, "/srv/libc/program": false, "/usr/bin/ld": false, "": false,
	} {
		if got := systemLibrary.MatchString(file); got != is {
			t.Errorf("%s: %v", file, got)
		}
	}
}

func TestKernelEntries(t *testing.T) {
	p := timeProfile(map[string]int64{
		"[clear_page] [do_anonymous_page] [exc_page_fault] [asm_exc_page_fault] /memset fill main":     48,
		"[clear_page] [asm_exc_page_fault] memset /start_thread":                                       2,
		"[unmap_page_range] [do_madvise] [__x64_sys_madvise] [do_syscall_64] __madvise purge main":     20,
		"[unmap_page_range] [do_madvise] [__x64_sys_madvise] [do_syscall_64] /__madvise /start_thread": 1,
		"[do_syscall_64] main":                           1,
		"[run_timer] [asm_sysvec_apic_timer] in_between": 2,
		"only_here main":                                 26,
	})
	entries := KernelEntries(p, 1)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name+" in "+e.Inner[0].Name+" from "+e.From[0].Name)
	}
	want := "page faults in clear_page from fill (by memset), madvise in unmap_page_range from purge, interrupts in run_timer from in_between, other in do_syscall_64 from main"
	if strings.Join(got, ", ") != want {
		t.Errorf("%v", got)
	}
	text := KernelText(entries, 1_000_000_000)
	for _, part := range []string{"In the kernel: 740.00 ms, 74.00% of the time\n", "500.00 ms  50.00%  page faults\n", " in   clear_page 100%\n", " from purge 95%, start_thread 5%\n", " from fill (by memset) 96%, memset 4%\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}
