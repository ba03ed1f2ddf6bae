package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Two libraries that lie at the same place one after the other, over and over: each is charged with what it has allocated, also when
// both are gone, in profiles and in the text that jeprof reads.
func TestUnloadedLibraries(t *testing.T) {
	need(t)
	const first, other = 5 * 8000 * 1024, 5 * 2000 * 1024
	folder := t.TempDir()
	program := filepath.Join(folder, "unload")
	if err := build("cc", "-O1", "-g", "testdata/unload.c", "-o", program, "-ldl"); err != nil {
		t.Fatal(err)
	}
	var libraries []string
	for _, name := range []string{"fill_in_first", "fill_in_other"} {
		libraries = append(libraries, filepath.Join(folder, name+".so"))
		if err := build("cc", "-O1", "-g", "-shared", "-fPIC", "-DNAME="+name, "testdata/unloaded_library.c", "-o", libraries[len(libraries)-1]); err != nil {
			t.Fatal(err)
		}
	}
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
