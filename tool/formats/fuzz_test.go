package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A file in any format is an error or a valid profile, and every writer accepts a valid profile.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/*")
	if err != nil || len(paths) == 0 {
		f.Fatal("no corpus", err)
	}
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil && len(data) < 16<<10 {
			f.Add(data)
		}
	}
	f.Add([]byte("heap profile: 1: 16 [2: 32] @ heapprofile\n1: 16 [2: 32] @ 0x401000 0x402000\n\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 1 /bin/x\n"))
	f.Add([]byte("heap_v2/524288\n  t*: 2: 64 [0: 0]\n  t0: 2: 64 [0: 0] main\n@ 0x401000 0x402000\n  t*: 2: 64 [0: 0]\n  t0: 2: 64 [0: 0]\n\nMAPPED_LIBRARIES:\n"))
	f.Add([]byte("--- contention ---\ncycles/second = 1000\n10 2 @ 0x401000\n"))
	f.Add([]byte("goroutine profile: total 3\n3 @ 0x401000 0x402000\n"))
	f.Add([]byte("\x00\x002\x00")) // a valid profile without sample types
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(data, "FILE")
		if err != nil {
			return
		}
		if err := p.CheckValid(); err != nil {
			t.Fatalf("an invalid profile was read: %v", err)
		}
		for _, name := range []string{"proto", "heap", "collapsed", "svg", "csv", "json"} {
			var out bytes.Buffer
			_, _ = ByName(name).Write(&out, p, Options{}) // may refuse a profile without memory values
		}
	})
}
