package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The variables of other allocators, compared with those allocators: where one is installed the same program runs on it
// with the same variables, and must leave files of the same names.

var (
	gperftoolsLibraries = []string{os.Getenv("SEEMALLOC_GPERFTOOLS_LIB"), "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
		"/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"}
	jemallocLibraries = []string{os.Getenv("SEEMALLOC_JEMALLOC_LIB"), "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
		"/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"}
)

// leaves runs the program with `variables`, in which DIR stands for a directory of the run, and returns the names of
// the files in it.
func leaves(t *testing.T, preload string, variables, commands []string) (names []string, complaint string) {
	t.Helper()
	dir := t.TempDir()
	var here []string
	for _, variable := range variables {
		here = append(here, strings.ReplaceAll(variable, "DIR", dir))
	}
	_, complaint = dumping(t, dir, preload, here, commands...)
	return named(t, dir), complaint
}

func sameAsOwner(t *testing.T, owners, variables, commands, want []string) {
	t.Helper()
	got, _ := leaves(t, "", variables, commands)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v %v leaves %v, expected %v", variables, commands, got, want)
	}
	for _, owner := range owners {
		if _, err := os.Stat(owner); err != nil {
			continue
		}
		if theirs, _ := leaves(t, owner, variables, commands); strings.Join(theirs, " ") != strings.Join(want, " ") {
			t.Errorf("%v %v: %s leaves %v, expected %v", variables, commands, filepath.Base(owner), theirs, want)
		}
		return
	}
	t.Log("the owner's library is not installed: not compared with it")
}

func TestGperftoolsVariables(t *testing.T) {
	for name, test := range map[string]struct{ variables, commands, want []string }{
		"at exit":  {[]string{"HEAPPROFILE=DIR/p"}, []string{"churn:1"}, numbered(1, 1, "p.%04d.heap")},
		"relative": {[]string{"HEAPPROFILE=p"}, []string{"churn:1"}, numbered(1, 1, "p.%04d.heap")},
		"bytes allocated": {[]string{"HEAPPROFILE=DIR/p", "HEAP_PROFILE_ALLOCATION_INTERVAL=8388608"}, []string{"churn:9", "await:1", "churn:9", "await:2"},
			numbered(1, 3, "p.%04d.heap")},
		"off": {[]string{"HEAPPROFILE=DIR/p", "HEAP_PROFILE_ALLOCATION_INTERVAL=0", "HEAP_PROFILE_INUSE_INTERVAL=0"}, []string{"keep:200", "churn:1100"},
			numbered(1, 1, "p.%04d.heap")},
		"high-water mark": {[]string{"HEAPPROFILE=DIR/p"}, []string{"keep:110", "await:1", "free", "keep:110"}, numbered(1, 2, "p.%04d.heap")},
		"signal": {[]string{"HEAPPROFILE=DIR/p", "HEAPPROFILESIGNAL=12"}, []string{"keep:1", "signal:12", "await:1", "keep:1"},
			numbered(1, 2, "p.%04d.heap")},
		"a program it starts": {[]string{"HEAPPROFILE=DIR/p"}, []string{"churn:1", "exec:1"}, []string{"p.0001.heap", "p_PID.0001.heap"}},
		"without HEAPPROFILE": {[]string{"HEAP_PROFILE_ALLOCATION_INTERVAL=1048576"}, []string{"churn:9"}, nil},
	} {
		t.Run(name, func(t *testing.T) { sameAsOwner(t, gperftoolsLibraries, test.variables, test.commands, test.want) })
	}
	// As documented (gperftools itself gives a child that only forks its parent's names, and so overwrites its files).
	t.Run("a child", func(t *testing.T) {
		names, _ := leaves(t, "", []string{"HEAPPROFILE=DIR/p"}, []string{"fork:1"})
		if len(names) != 2 || names[0] != "p.0001.heap" || !regexp.MustCompile(`^p_PID\.\d{4}\.heap$`).MatchString(names[1]) {
			t.Errorf("%v", names)
		}
	})
	t.Run("seconds", func(t *testing.T) {
		began := time.Now()
		names, _ := leaves(t, "", []string{"HEAPPROFILE=DIR/p", "HEAP_PROFILE_TIME_INTERVAL=1"}, []string{"await:1", "sleep:500"})
		// One file per second, and one at the end.
		if took := int(time.Since(began).Seconds()); len(names) < 2 || len(names) > took+1 || names[0] != "p.0001.heap" || names[1] != "p.0002.heap" {
			t.Errorf("%v after %d s", names, took)
		}
	})
}

// A program that does not wait leaves a file for each time the helper thread came to write: at least one, never more
// than on gperftools, whose allocating thread writes itself.
func TestIntervalsOfAProgramThatDoesNotWait(t *testing.T) {
	for _, test := range []struct {
		name      string
		variables []string
		owners    []string
		most      int // on the other allocator
	}{
		{"gperftools", []string{"HEAPPROFILE=DIR/p", "HEAP_PROFILE_ALLOCATION_INTERVAL=10485760"}, gperftoolsLibraries, 21},
		{"jemalloc", []string{"MALLOC_CONF=prof:true,lg_prof_sample:0,lg_prof_interval:23,prof_final:true,prof_prefix:DIR/j"}, jemallocLibraries, 26},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The last file is the one at exit.
			names, _ := leaves(t, "", test.variables, []string{"churn:200"})
			if len(names) < 2 || len(names) > test.most {
				t.Errorf("%d files, expected 2 to %d: %v", len(names), test.most, names)
			}
			t.Logf("%d files", len(names))
			for _, owner := range installed(test.owners) {
				if theirs, _ := leaves(t, owner, test.variables, []string{"churn:200"}); len(theirs) != test.most {
					t.Errorf("%s leaves %d, expected %d", filepath.Base(owner), len(theirs), test.most)
				}
			}
		})
	}
}

func TestJemallocVariables(t *testing.T) {
	for name, test := range map[string]struct {
		conf           string
		commands, want []string
	}{
		"at exit":        {"prof:true,prof_final:true,prof_prefix:DIR/j", []string{"churn:1"}, []string{"j.PID.0.f.heap"}},
		"default prefix": {"prof:true,prof_final:true", []string{"churn:1"}, []string{"jeprof.PID.0.f.heap"}},
		"no prof":        {"prof_final:true,prof_prefix:DIR/j", []string{"churn:1"}, nil},
		"empty prefix":   {"prof:true,prof_final:true,lg_prof_interval:20,prof_prefix:", []string{"churn:9"}, nil},
		"leaks alone":    {"prof_leak:true,lg_prof_interval:20,prof_prefix:DIR/j", []string{"keep:3"}, nil},
		"bytes allocated": {"prof:true,lg_prof_sample:0,lg_prof_interval:23,prof_prefix:DIR/j", []string{"churn:9", "await:1", "churn:9", "await:2"},
			[]string{"j.PID.0.i0.heap", "j.PID.1.i1.heap"}},
		"and at exit": {"prof:true,lg_prof_sample:0,lg_prof_interval:23,prof_final:true,prof_prefix:DIR/j", []string{"churn:9", "await:1"},
			[]string{"j.PID.0.i0.heap", "j.PID.1.f.heap"}},
	} {
		t.Run(name, func(t *testing.T) {
			sameAsOwner(t, jemallocLibraries, []string{"MALLOC_CONF=" + test.conf}, test.commands, test.want)
		})
	}
	// jemalloc dumps at each step of its own growth, 16 KiB or so; seemalloc at each 2 MiB.
	t.Run("growth", func(t *testing.T) {
		names, _ := leaves(t, "", []string{"MALLOC_CONF=prof:true,prof_gdump:true,prof_prefix:DIR/j"},
			[]string{"keep:3", "await:1", "keep:3", "await:2", "keep:3", "await:3", "free", "keep:9"})
		if len(names) < 3 || len(names) > 5 || names[0] != "j.PID.0.u0.heap" {
			t.Errorf("%v", names)
		}
	})
	t.Run("leaks", func(t *testing.T) {
		_, complaint := leaves(t, "", []string{"MALLOC_CONF=prof:true,prof_leak:true,prof_final:true,lg_prof_sample:0,prof_prefix:DIR/j"}, []string{"keep:10"})
		line := regexp.MustCompile("^seemalloc: still in use at exit: about 10\\d{6} bytes \\(standard error 0\\), estimated from \\d+ samples; `seemalloc top \\S+/j\\.\\d+\\.0\\.f\\.heap` shows the call stacks\n$")
		if !line.MatchString(complaint) {
			t.Errorf("%q", complaint)
		}
	})
	t.Run("statistics", func(t *testing.T) {
		_, complaint := leaves(t, "", []string{"MALLOC_CONF=stats_print:true"}, []string{"churn:1"})
		if !strings.HasPrefix(complaint, "seemalloc 0.1.0, bytes:\nresident ") {
			t.Errorf("%q", complaint)
		}
		compat := filepath.Join(filepath.Dir(library), "libseemalloc_compat.so")
		_, complaint = leaves(t, compat, []string{"MALLOC_CONF=stats_print:true"}, []string{"churn:1"})
		if !strings.HasPrefix(complaint, "___ Begin jemalloc statistics ___\nVersion: ") || !strings.HasSuffix(complaint, "--- End jemalloc statistics ---\n") {
			t.Errorf("%q", complaint)
		}
	})
}

// With libseemalloc_compat the files have the text that jemalloc would have written under these names: jeprof reads
// them as they are.
func TestJemallocsDumpsAreItsText(t *testing.T) {
	compat := filepath.Join(filepath.Dir(library), "libseemalloc_compat.so")
	const kept = 5 << 20
	dir := t.TempDir()
	conf := "MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:0,lg_prof_interval:23,prof_prefix:" + dir + "/j"
	dumping(t, dir, compat, []string{conf}, "keep:5", "churn:9", "await:1")
	if names := named(t, dir); strings.Join(names, " ") != "j.PID.0.i0.heap j.PID.1.f.heap" {
		t.Fatalf("%v", names)
	}
	files, _ := filepath.Glob(dir + "/j.*.heap")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^heap_v2/1\n  t\*: \d+: \d+ \[\d+: \d+\]\n(#.*\n)*@( 0x[0-9a-f]+)+\n  t\*: \d+: `).Match(data) ||
			!strings.Contains(string(data), "\nMAPPED_LIBRARIES:\n") {
			t.Fatalf("%s begins with %.300q", file, data)
		}
		report, flat, _ := top(t, file)
		if flat["keep"] != kept || report.Total < kept {
			t.Errorf("%s: keep has %d of %d, expected %d", file, flat["keep"], report.Total, kept)
		}
	}
	program, _ := dumpsProgram()
	final := files[len(files)-1]
	report, _, _ := top(t, final)
	total, theirs := jeprof(t, program, final)
	nearly(t, "jeprof's total", total, report.Total)
	nearly(t, "keep in jeprof", theirs["keep"], kept)
}

// And under gperftools' names the text of its heap profiler, which its own pprof, jeprof and Go's pprof read.
func TestGperftoolsDumpsAreItsText(t *testing.T) {
	compat := filepath.Join(filepath.Dir(library), "libseemalloc_compat.so")
	const kept = 5 << 20
	dir := t.TempDir()
	dumping(t, dir, compat, []string{"HEAPPROFILE=" + dir + "/p", "HEAP_PROFILE_ALLOCATION_INTERVAL=8388608"}, "keep:5", "churn:9", "await:1")
	if names := named(t, dir); strings.Join(names, " ") != "p.0001.heap p.0002.heap" {
		t.Fatalf("%v", names)
	}
	program, _ := dumpsProgram()
	for _, name := range []string{"p.0001.heap", "p.0002.heap"} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^heap profile: +\d+: +\d+ \[ *\d+: +\d+\] @ heap`).Match(data) || !strings.Contains(string(data), "\nMAPPED_LIBRARIES:\n") {
			t.Fatalf("%s begins with %.300q", file, data)
		}
		report, flat, _ := top(t, file)
		if flat["keep"] != kept || report.Total < kept {
			t.Errorf("%s: keep has %d of %d, expected %d", file, flat["keep"], report.Total, kept)
		}
		if len(profileOf(t, file).Sample) == 0 {
			t.Error("pprof's package finds no sample")
		}
		total, theirs := jeprof(t, program, file)
		nearly(t, "jeprof's total", total, report.Total)
		nearly(t, "keep in jeprof", theirs["keep"], kept)
	}
}

// The constructors of libraries that a program is linked with run before those of a preloaded library.
func TestJemallocsDumpsBeforeTheProgramBegins(t *testing.T) {
	need(t)
	dir := t.TempDir()
	shared, program, source := filepath.Join(dir, "libearly.so"), filepath.Join(dir, "program"), filepath.Join(dir, "main.c")
	if err := os.WriteFile(source, []byte("extern int was_there;\nint main(void) { return !was_there; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-O2", "-shared", "-fPIC", "testdata/early_dump.c", "-o", shared); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-O2", source, shared, "-Wl,-rpath,"+dir, "-o", program); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program)
	c.Env = environment("LD_PRELOAD="+filepath.Join(filepath.Dir(library), "libseemalloc_compat.so"), "PREFIX="+dir+"/j",
		"MALLOC_CONF=prof:true,lg_prof_sample:0,lg_prof_interval:23,prof_prefix:"+dir+"/j")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, _ := filepath.Glob(dir + "/j.*.0.i0.heap")
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	if data, err := os.ReadFile(files[0]); err != nil || !strings.HasPrefix(string(data), "heap_v2/1\n") {
		t.Errorf("%v, begins with %.20q", err, data)
	}
}

// With seemalloc's names the profiles have seemalloc's format, in that library, too; the default library writes no
// other format.
func TestForeignVariablesOnOtherPrograms(t *testing.T) {
	compat := filepath.Join(filepath.Dir(library), "libseemalloc_compat.so")
	const jemalloc, gperftools = "MALLOC_CONF=prof:true,prof_final:true,prof_prefix:DIR/j", "HEAPPROFILE=DIR/j"
	for _, test := range []struct{ preload, theirs, ours, want string }{
		{library, jemalloc, "", "j.PID.0.f.heap"},
		{compat, jemalloc, "dump_names:seemalloc", "j.PID.1.heap.pb"},
		{library, gperftools, "", "j.0001.heap"},
		{compat, gperftools, "dump_names:seemalloc", "j.PID.1.heap.pb"},
	} {
		dir := t.TempDir()
		dumping(t, dir, test.preload, []string{strings.ReplaceAll(test.theirs, "DIR", dir), "SEEMALLOC_CONF=" + test.ours}, "churn:1")
		files, _ := filepath.Glob(dir + "/j.*")
		if names := named(t, dir); len(files) != 1 || strings.Join(names, " ") != test.want {
			t.Fatalf("%v", names)
		}
		if data, err := os.ReadFile(files[0]); err != nil || strings.HasPrefix(string(data), "heap") {
			t.Errorf("%s: %v, begins with %.20q", files[0], err, data)
		}
	}
}

// seemalloc's option wins; an unknown setting is reported in one line, and the program runs.
func TestForeignAndOwnVariables(t *testing.T) {
	names, complaint := leaves(t, "", []string{"HEAPPROFILE=DIR/p", "SEEMALLOC_CONF=dump_names:seemalloc,dump_prefix:DIR/ours,dump_final:1"}, []string{"churn:1"})
	if strings.Join(names, " ") != "ours.PID.1.heap.pb" || complaint != "" {
		t.Errorf("%v %q", names, complaint)
	}
	_, complaint = leaves(t, "", []string{"MALLOC_CONF=colour:red,narenas:4,prof:maybe", "TCMALLOC_RELEASE_RATE=fast"}, []string{"churn:1"})
	for _, part := range []string{"MALLOC_CONF: bad pair \"colour:red\" ignored", "\"prof:maybe\" ignored; expected true or false",
		"TCMALLOC_RELEASE_RATE: bad value \"fast\" ignored"} {
		if strings.Count(complaint, part) != 1 {
			t.Errorf("%q is not once in %q", part, complaint)
		}
	}
	if strings.Count(complaint, "\n") != 3 {
		t.Errorf("%q", complaint)
	}
	_, complaint = leaves(t, "", []string{"MALLOC_CONF=narenas:4,confirm_conf:true"}, []string{"churn:1"})
	if complaint != "seemalloc: settings without effect: narenas\n" {
		t.Errorf("%q", complaint)
	}
}

// opt.… reports the settings of the start even before the constructors have run, and whatever is changed later: a
// library of the program asks first.
func TestStartOptionsAreApplied(t *testing.T) {
	need(t)
	compat := filepath.Join(filepath.Dir(library), "libseemalloc_compat.so")
	dir := t.TempDir()
	shared, program := filepath.Join(dir, "libstart.so"), filepath.Join(dir, "start_names")
	for _, flags := range [][]string{{"-DLIBRARY", "-shared", "-fPIC", "-o", shared}, {"-o", program, "-Wl,-rpath," + dir, "-L" + dir, "-lstart"}} {
		if err := build(append([]string{"c++", "-std=c++20", "-O2", "testdata/start_names.cc"}, flags...)...); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command(program)
	run.Dir = dir
	for conf, want := range map[string]string{
		"prof:true,lg_prof_sample:17,dirty_decay_ms:77,prof_prefix:here,background_thread:true": "decay 77, interval 17, active 1, final 0, background 1, " +
			"prefix here, muzzy 0, abort 0, prof 1",
		"prof:false,muzzy_decay_ms:500,abort_conf:true": "decay 1000, interval 19, active 1, final 0, background 1, prefix jeprof, muzzy 500, abort 1, prof 0",
	} {
		again := *run
		again.Env = environment("LD_PRELOAD="+compat, "MALLOC_CONF="+conf)
		out, complaint := finish(t, &again, nil)
		if out != "constructor: "+want+"\nmain: "+want+"\n" || complaint != "" {
			t.Errorf("%s: %q %q, expected twice %s", conf, out, complaint, want)
		}
	}
}
