package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Blocks allocated by code generated at run time: its frames have the names listed in /tmp/perf-PID.map, in a live
// process's table and in a saved profile, and the frames above them are present.
func TestGeneratedCodeOfAProcess(t *testing.T) {
	need(t)
	program := filepath.Join(t.TempDir(), "jit")
	if err := build("cc", "-O2", "-g", "-fno-omit-frame-pointer", "testdata/jit.c", "-o", program); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, binary, "run", "--sample", "1", "--", program)
	list := "/tmp/perf-" + p.pid + ".map"
	t.Cleanup(func() { os.Remove(list) })
	waitFor(t, socketOf(p.pid))
	const blocks, name = 100 * 4096, "script::make_blocks script.js:7"
	check := func(target string) {
		t.Helper()
		_, _, cum := top(t, target)
		if cum["allocate"] < blocks || cum[name] != cum["allocate"] || cum["main"] < blocks {
			t.Errorf("%s: %v, expected %d bytes below main, %s and allocate", target, cum, blocks, name)
		}
	}
	check(p.pid)
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	tool(t, "profile", p.pid, "-o", file)
	check(file)

	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	out, note, status := try(t, "top", p.pid, "-n", "0")
	if status != 0 || strings.Contains(out, "script") {
		t.Errorf("status %d, a name from nowhere:\n%s", status, out)
	}
	if !strings.Contains(note, list) {
		t.Errorf("it does not say what would bring names: %q", note)
	}
}
