package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// buildUnloading builds the program and the two libraries that it loads, in a directory of the test.
func buildUnloading(t *testing.T) (folder, program string, libraries []string) {
	t.Helper()
	folder = t.TempDir()
	program = filepath.Join(folder, "unload")
	if err := build("cc", "-O1", "-g", "testdata/unload.c", "-o", program, "-ldl"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "other"} {
		library := filepath.Join(folder, "fill_in_"+name+".so")
		libraries = append(libraries, library)
		if err := build("cc", "-O1", "-g", "-shared", "-fPIC", "-DNAME=fill_in_"+name, "-DBURN=burn_in_"+name, "testdata/unloaded_library.c", "-o", library); err != nil {
			t.Fatal(err)
		}
	}
	return folder, program, libraries
}

// Two libraries that are loaded alternately at the same addresses: each is charged with its own allocations, even when
// both are unloaded, in profiles and in the text that jeprof reads.
func TestUnloadedLibraries(t *testing.T) {
	need(t)
	const first, other = 5 * 8000 * 1024, 5 * 2000 * 1024
	folder, program, libraries := buildUnloading(t)
	p := launch(t, nil, binary, "run", "--sample", "1", "--", program, libraries[0], libraries[1], "5")
	if !p.lines.Scan() || p.lines.Text() != "same" {
		t.Logf("the system does not load them at the same place: %q", p.lines.Text())
	}
	waitFor(t, socketOf(p.pid))
	file := filepath.Join(folder, "heap.pb.gz")
	tool(t, "profile", p.pid, "-o", file)
	for _, target := range []string{p.pid, file} {
		_, flat, cum := top(t, target)
		if flat["fill_in_first"] != first || flat["fill_in_other"] != other || cum["fill"] != first+other {
			t.Errorf("%s: %d and %d bytes, in both %d; expected %d and %d", target, flat["fill_in_first"], flat["fill_in_other"], cum["fill"], first, other)
		}
	}
	for _, library := range libraries {
		found := 0
		for _, mapping := range profileOf(t, file).Mapping {
			if mapping.File == library && mapping.BuildID != "" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s has %d mappings with a build id", library, found)
		}
	}

	exits := exec.Command(program, libraries[0], libraries[1], "5", "exit")
	exits.Dir, exits.Env = folder, environment("LD_PRELOAD="+filepath.Join(filepath.Dir(library), "libseemalloc_compat.so"),
		"MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:text")
	if out, err := exits.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	texts, _ := filepath.Glob(filepath.Join(folder, "text.*.heap"))
	if len(texts) != 1 {
		t.Fatalf("texts: %v", texts)
	}
	if _, flat, _ := top(t, texts[0]); flat["fill_in_first"] != first || flat["fill_in_other"] != other {
		t.Errorf("the text: %d and %d bytes, expected %d and %d", flat["fill_in_first"], flat["fill_in_other"], first, other)
	}
}

// The CPU time of each library is attributed to it, although neither is loaded any more when the profile is written,
// and each has been at the addresses of the other. Without heap samples, which keep stacks of libraries, too.
func TestUnloadedLibrariesOfACPUProfile(t *testing.T) {
	need(t)
	folder, program, libraries := buildUnloading(t)
	for _, sample := range []string{"0", "524288"} {
		file := filepath.Join(folder, "cpu."+sample)
		run := exec.Command(program, libraries[0], libraries[1], "5", "exit")
		run.Dir, run.Env = folder, environment("LD_PRELOAD="+library, "SEEMALLOC_CONF=sample:"+sample, "CPUPROFILE="+file, "CPUPROFILE_FREQUENCY=1000", "BURN_MS=120")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, flat, cum := top(t, file)
		first, other := flat["burn_in_first"], flat["burn_in_other"]
		if first < 2*other || other == 0 || cum["burn"] < first+other {
			t.Errorf("sample:%s: %d and %d ns, in both %d; expected a third in the other", sample, first, other, cum["burn"])
		}
	}
}
