package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Rust program, optimised, without frame pointers: whole stacks and demangled names; 64 frames of 100 are recorded,
// or all of them if the option is set accordingly.
func TestRustStacks(t *testing.T) {
	need(t)
	if _, err := exec.LookPath("rustc"); err != nil {
		t.Skip("no rustc")
	}
	program := filepath.Join(t.TempDir(), "deep")
	if err := build("rustc", "-O", "-g", "-C", "force-frame-pointers=no", "testdata/deep.rs", "-o", program); err != nil {
		t.Fatal(err)
	}
	for _, depth := range []string{"64", "128"} {
		p := launch(t, nil, binary, "run", "--sample", "1", "--conf", "stack_depth:"+depth, "--", program)
		waitFor(t, socketOf(p.pid))
		_, _, cum := top(t, p.pid)
		found := map[string]int64{}
		for name, bytes := range cum {
			for _, want := range []string{"deep::bottom", "descend", "deep::main"} {
				if strings.Contains(name, want) {
					found[want] = bytes
				}
			}
		}
		const blocks = 500 * 4096
		if found["deep::bottom"] < blocks || found["descend"] < blocks {
			t.Errorf("depth %s: %v, expected %d bytes below bottom and descend", depth, found, blocks)
		}
		if whole := found["deep::main"] >= blocks; whole != (depth == "128") {
			t.Errorf("depth %s: %d bytes below main", depth, found["deep::main"])
		}
	}
}
