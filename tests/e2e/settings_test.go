package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The effects of other allocators' variables, not only the options they map to: the same program runs on this library
// and, where it is installed, on the other allocator, with one expectation for both.

var settingsProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(work, "settings")
	return program, build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread",
		"testdata/settings.cc", "-o", program)
})

var profilerLibraries = []string{"/usr/lib/x86_64-linux-gnu/libprofiler.so.0", "/usr/lib/aarch64-linux-gnu/libprofiler.so.0"}

func settings(t *testing.T, preload string, variables []string, commands ...string) *exec.Cmd {
	t.Helper()
	need(t)
	program, err := settingsProgram()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, commands...)
	command.Env = environment(append(variables, "LD_PRELOAD="+preload)...)
	return command
}

// withSettings runs testdata/settings.cc, which must succeed, and returns what it printed.
func withSettings(t *testing.T, preload string, variables []string, commands ...string) (out, complaint string) {
	t.Helper()
	command := settings(t, preload, variables, commands...)
	out, complaint = finish(t, command, nil)
	if status := command.ProcessState.ExitCode(); status != 0 {
		t.Fatalf("%v %v on %s: status %d, %s", variables, commands, filepath.Base(preload), status, complaint)
	}
	return out, complaint
}

// installed is the first of these files that exists, if any.
func installed(files []string) []string {
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return []string{file}
		}
	}
	return nil
}

func TestForeignVariablesAsDocumented(t *testing.T) {
	const kept, gone = 150, 60 // MiB resident of 200 that were freed
	atOnce := []string{"keep:200", "free", "resident"}
	later := []string{"keep:200", "free", "sleep:2500", "resident"}
	// The programs sleep most of the time.
	var all sync.WaitGroup
	room := make(chan struct{}, 5)
	defer all.Wait()
	for _, test := range []struct {
		variables   string
		owners      []string // nil: the allocator's own behaviour is not comparable
		commands    []string
		least, most int
	}{
		{"TCMALLOC_RELEASE_RATE=0", gperftoolsLibraries, later, kept, 250},
		{"TCMALLOC_RELEASE_RATE=0.1", gperftoolsLibraries, later, kept, 250},
		// gperftools returns memory only while more is freed. Without the variable nothing is returned for a second;
		// with it in 0.1 s, or 0.6 s if the helper thread had nothing to do and sleeps.
		{"TCMALLOC_RELEASE_RATE=10", nil, []string{"keep:200", "free", "sleep:750", "resident"}, 0, gone},
		{"TCMALLOC_DISABLE_MEMORY_RELEASE=1", nil, later, kept, 250},
		{"TCMALLOC_AGGRESSIVE_DECOMMIT=1", gperftoolsLibraries, atOnce, 0, gone},
		{"TCMALLOC_AGGRESSIVE_DECOMMIT=0", gperftoolsLibraries, atOnce, kept, 250},
		{"TCMALLOC_HEAP_LIMIT_MB=64", gperftoolsLibraries, []string{"blocks:200"}, 40, 64},
		{"TCMALLOC_HEAP_LIMIT_MB=0", gperftoolsLibraries, []string{"blocks:200"}, 200, 200},
		{"MALLOC_CONF=dirty_decay_ms:0", jemallocLibraries, atOnce, 0, gone},
		{"MALLOC_CONF=dirty_decay_ms:-1", jemallocLibraries, later, kept, 250},
		{"MALLOC_CONF=dirty_decay_ms:300,background_thread:true", jemallocLibraries, later, 0, gone},
		// There is no thread that watches the time.
		{"MALLOC_CONF=dirty_decay_ms:300,background_thread:false", jemallocLibraries, later, gone, 250},
		// jemalloc had this option until version 4.
		{"MALLOC_CONF=lg_dirty_mult:-1", nil, later, kept, 250},
		{"MALLOC_CONF=lg_dirty_mult:3,dirty_decay_ms:600000", nil, later, 0, gone},
		{"MALLOC_CONF=dirty_decay_ms:600000", nil, later, kept, 250},
	} {
		for _, preload := range append([]string{library}, installed(test.owners)...) {
			command := settings(t, preload, []string{test.variables}, test.commands...)
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				for tries := 1; ; tries++ {
					again := *command
					out, err := again.Output()
					got, scanned := strconv.Atoi(strings.TrimSpace(string(out)))
					if err == nil && scanned == nil && got >= test.least && got <= test.most {
						return
					}
					// On a busy machine memory may be returned later than it should, or freeing takes as long as the
					// decay time, so that memory is returned before the check: in one of several attempts that must not
					// happen.
					most := 5
					if test.least <= gone {
						most = 30
					}
					if err == nil && scanned == nil && tries < most {
						continue
					}
					t.Errorf("%s on %s: %v gives %q (%v), expected %d to %d", test.variables, filepath.Base(preload), test.commands, out, err, test.least, test.most)
					return
				}
			})
		}
	}
}

// Free large blocks stay with the threads that freed them, within the total limit.
func TestTCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES(t *testing.T) {
	need(t)
	program, err := settingsProgram()
	if err != nil {
		t.Fatal(err)
	}
	kept := func(variables ...string) int64 {
		p := launch(t, append(variables, "LD_PRELOAD="+library, "SEEMALLOC_CONF=purge:never,at_start:1"), program, "caches:4")
		waitFor(t, socketOf(p.pid))
		var stats struct {
			Spans struct {
				CachedLarge int64 `json:"cached_large_bytes"`
			}
		}
		parse(t, tool(t, "stats", p.pid, "--json"), &stats)
		return stats.Spans.CachedLarge
	}
	if free, bounded := kept(), kept("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=2097152"); bounded > 2<<20 || free < 3<<20 {
		t.Errorf("%d bytes are kept where at most 2 MiB may be, %d without a bound", bounded, free)
	}
}

// The sampling interval is in the profile, and the samples add up to the right total; with sampling off there are no
// samples.
func TestForeignSamplingIntervals(t *testing.T) {
	for _, test := range []struct {
		name, variable string
		owners         []string
		sampled        bool
	}{
		{"TCMALLOC_SAMPLE_PARAMETER", "TCMALLOC_SAMPLE_PARAMETER=65536", nil, true},
		{"TCMALLOC_SAMPLE_PARAMETER off", "TCMALLOC_SAMPLE_PARAMETER=0", nil, false},
		{"lg_prof_sample", "MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:16,prof_prefix:DIR/p", jemallocLibraries, true},
		{"prof_active", "MALLOC_CONF=prof:true,prof_active:false,prof_final:true,prof_prefix:DIR/p", jemallocLibraries, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			need(t)
			for _, preload := range append([]string{library}, installed(test.owners)...) {
				dir := t.TempDir()
				variables := []string{strings.ReplaceAll(test.variable, "DIR", dir)}
				if test.owners == nil {
					variables = append(variables, "SEEMALLOC_CONF=dump_at_exit:"+dir+"/p.heap")
				}
				withSettings(t, preload, variables, "keep:200")
				files, _ := filepath.Glob(dir + "/p*.heap")
				if len(files) != 1 {
					t.Fatalf("%s left %v", filepath.Base(preload), files)
				}
				report, _, cum := top(t, files[0])
				if !test.sampled {
					if report.Total != 0 {
						t.Errorf("%s: %d bytes are sampled", filepath.Base(preload), report.Total)
					}
					continue
				}
				sampled(t, "keep on "+filepath.Base(preload), cum["main"], 200<<20/(64<<10), 64<<10, 64<<10)
				if text := tool(t, "top", files[0]); !strings.Contains(text, "sampled once in 64.00 KiB") {
					t.Errorf("%s: another interval in\n%s", filepath.Base(preload), text)
				}
			}
		})
	}
}

// With the variable elapsed time is profiled, without it CPU time: of a program that sleeps.
func TestCPUPROFILE_REALTIME(t *testing.T) {
	for _, preload := range append([]string{library}, installed(profilerLibraries)...) {
		for _, test := range []struct {
			variables   []string
			least, most int64 // ms; most: in addition to its actual run time
		}{
			{[]string{"CPUPROFILE_REALTIME=1"}, 500, 500},
			{[]string{"CPUPROFILE_REALTIME="}, 500, 500}, // any value enables it, as documented
			{nil, 0, -700},
		} {
			var said string
			for range 10 { // on a busy machine a program may hardly be interrupted, or start slowly
				if said = realtime(t, preload, test.variables, test.least, test.most); said == "" {
					break
				}
			}
			if said != "" {
				t.Errorf("%s %v: %s", filepath.Base(preload), test.variables, said)
			}
		}
	}
}

// realtime returns the problem of the profile of a program that sleeps for a second, or "".
func realtime(t *testing.T, preload string, variables []string, least, most int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cpu.prof")
	began := time.Now()
	_, complaint := withSettings(t, preload, append(variables, "CPUPROFILE="+file), "sleep:1000")
	most += time.Since(began).Milliseconds()
	var interrupts int64
	if _, err := fmt.Sscanf(complaint, "PROFILE: interrupts/evictions/bytes = %d/", &interrupts); err != nil {
		t.Fatalf("%q", complaint)
	}
	if interrupts == 0 { // the file is then empty on the other allocator
		if least == 0 {
			return ""
		}
		return "no interrupts"
	}
	report, _, cum := top(t, file)
	if ms := report.Total / 1e6; ms < least || ms > most || (least != 0 && cum["sleep_for"] < report.Total/2) {
		return fmt.Sprintf("%d ms, %d ns of it in sleep_for; expected %d to %d ms", ms, cum["sleep_for"], least, most)
	}
	return ""
}
