package symbolize

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A file that is stripped as Fedora's packages are: its symbol table is in .gnu_debugdata, compressed by xz itself.
func TestMiniDebug(t *testing.T) {
	objcopy, strip, xz := tool(t, "objcopy"), tool(t, "strip"), tool(t, "xz")
	path := compile(t, "-g0")
	mini := filepath.Join(t.TempDir(), "mini")
	run(t, objcopy, "--only-keep-debug", path, mini)
	for name, flags := range map[string][]string{"as rpm": nil, "several threads": {"-T2", "--block-size=4096"}, "crc32": {"--check=crc32"}} {
		t.Run(name, func(t *testing.T) {
			packed, err := exec.Command(xz, append(flags, "--stdout", mini)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			section := filepath.Join(t.TempDir(), "section")
			if err := os.WriteFile(section, packed, 0o644); err != nil {
				t.Fatal(err)
			}
			stripped := filepath.Join(t.TempDir(), "marks")
			run(t, strip, "--strip-all", "-o", stripped, path)
			run(t, objcopy, "--add-section", ".gnu_debugdata="+section, stripped)
			program := start(t, stripped)
			p := program.profile(t, idOf(t, stripped))
			Profile(p, Files{PID: program.pid})
			for mark, want := range map[string]string{"inlined": "shop::fill", "plain": "plain_c", "anonymous": "shop::(anonymous namespace)::hidden"} {
				if got := stack(p, mark); got != want {
					t.Errorf("%s: got %s, want %s", mark, got, want)
				}
			}
		})
	}
}

// A file may state any dictionary: at most 64 MiB are allocated.
func TestXZDictionary(t *testing.T) {
	header := []byte("\xfd7zXZ\x00\x00\x04....")
	for name, test := range map[string]struct {
		block []byte
		small bool
	}{
		"8 MiB":          {[]byte{2, 0, 0x21, 1, 22}, true},
		"64 MiB":         {[]byte{2, 0, 0x21, 1, 28}, true},
		"96 MiB":         {[]byte{2, 0, 0x21, 1, 29}, false},
		"4 GiB":          {[]byte{2, 0, 0x21, 1, 40}, false},
		"with sizes":     {[]byte{2, 0xc0, 0x80, 1, 0x80, 2, 0x21, 1, 22}, true},
		"another filter": {[]byte{2, 0, 4, 0, 0x21, 1, 22}, false},
		"cut off":        {[]byte{2, 0, 0x21}, false},
	} {
		if got := hasSmallDictionary(append(header[:len(header):len(header)], test.block...)); got != test.small {
			t.Errorf("%s: %v", name, got)
		}
	}
	if hasSmallDictionary(header) || hasSmallDictionary(nil) {
		t.Error("a stream without a block is accepted")
	}
}
