package formats

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
)

// valgrind's own viewer builds its tree from our DHAT files and finds our totals in it.
func TestDhView(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node (Debian's nodejs)")
	}
	var viewer []byte
	for _, dir := range []string{"/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/local/libexec/valgrind"} {
		if viewer, err = os.ReadFile(filepath.Join(dir, "dh_view.js")); err == nil {
			break
		}
	}
	if err != nil {
		t.Skip("needs dh_view.js (Debian's valgrind)")
	}
	const ask = `
gSelect = { childNodes: [{}], selectedIndex: 0 };
gData = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
buildTree();
console.log(gRoot._totalBytes, gRoot._totalBlocks, gRoot._atTEndBytes, gRoot._atTEndBlocks);
`
	dir := t.TempDir()
	script, file := filepath.Join(dir, "view.js"), filepath.Join(dir, "x.dhat.json")
	code := "const document = {}, window = {}, location = {};\n" + string(viewer) + ask
	if err := os.WriteFile(script, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	r := random(t)
	for _, p := range []*profile.Profile{shop(), sampled(r, 4096), sampled(r, 1)} {
		sums := totals(p)
		if err := os.WriteFile(file, write(t, "dhat", p, 3), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(node, script, file).CombinedOutput()
		want := fmt.Sprintf("%d %d %d %d\n", sums["alloc_space"], sums["alloc_objects"], sums["inuse_space"], sums["inuse_objects"])
		if err != nil || string(out) != want {
			t.Fatalf("%v: %s, want %s", err, out, want)
		}
	}
}
