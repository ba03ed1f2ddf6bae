package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// generated builds and symbolizes a profile of addresses outside all mappings.
func generated(t *testing.T, files Files, addresses ...uint64) (names []string, result Result) {
	t.Helper()
	emptyCache(t)
	p := &profile.Profile{}
	for i, a := range addresses {
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Address: a})
	}
	result = Profile(p, files)
	for _, loc := range p.Location {
		name := ""
		for _, line := range loc.Line {
			name += line.Function.Name
			if line.Function.Filename != "" {
				name += fmt.Sprintf(" %s:%d", line.Function.Filename, line.Function.StartLine)
			}
		}
		names = append(names, name)
	}
	return names, result
}

func expectNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

const somePerfMap = `7f0000001000 100 LazyCompile:*sum /app/index.js:12:5
0x7f0000002000 0x10 py::Basket.put:/app/run.py
nonsense
7f0000003000 zz bad
7f0000003000 10
7f0000003000 10
fffffffffffffff0 100 wraps round
7f0000004000 1000 old
7f0000004800 10 [stub] a name with spaces
7f0000005000 10 JS:~ node:internal/main:3:1
7f0000006000 10`

// writePerfMap writes a map for this process to the standard path.
func writePerfMap(t *testing.T) string {
	t.Helper()
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	if err := os.WriteFile(path, []byte(somePerfMap), 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	return path
}

func TestGeneratedCode(t *testing.T) {
	path := writePerfMap(t)
	addresses := []uint64{0x7f0000004805, 0x7f0000001000, 0x7f00000010ff, 0x7f0000001100, 0x7f000000200f, 0x7f0000003000,
		0x7f00000047ff, 0x7f0000000fff, 0x7f0000005001, 0x7f0000006000}
	want := []string{"[stub] a name with spaces", "sum /app/index.js:12", "sum /app/index.js:12", "", "Basket.put /app/run.py:0", "",
		"old", "", "(anonymous) node:internal/main:3", ""}
	names, result := generated(t, Files{PID: os.Getpid()}, addresses...)
	expectNames(t, names, want...)
	if result.Generated != 6 || result.Unnamed != 4 || len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "4 addresses are in no file and not in "+path) {
		t.Errorf("%+v", result)
	}
	// The process of a saved profile is unknown, but the user can name its map.
	names, result = generated(t, Files{}, addresses...)
	if strings.Join(names, "") != "" || len(result.Notes) != 0 {
		t.Errorf("%q %+v", names, result)
	}
	saved := filepath.Join(t.TempDir(), "saved.map")
	if err := os.WriteFile(saved, []byte(somePerfMap), 0o644); err != nil {
		t.Fatal(err)
	}
	names, _ = generated(t, Files{PerfMaps: []string{saved}}, addresses...)
	expectNames(t, names, want...)
}

// All users may write to /tmp.
func TestPerfMapOfOthers(t *testing.T) {
	path := writePerfMap(t)
	get := func() string {
		names, _ := generated(t, Files{PID: os.Getpid()}, 0x7f0000001000)
		return names[0]
	}
	if get() == "" {
		t.Fatal("not read at all")
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Rename(path, other); err != nil {
		t.Skip(err)
	}
	if got := get(); got != "" {
		t.Errorf("no map, but %s", got)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != "" {
		t.Errorf("a link was followed: %s", got)
	}
	os.Remove(path)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != "" {
		t.Errorf("a folder was read: %s", got)
	}
	os.Remove(path)
	if os.Geteuid() != 0 {
		t.Skip("giving a file to another user needs root")
	}
	writePerfMap(t)
	if err := os.Chown(path, 1234, 1234); err != nil {
		t.Skip(err)
	}
	if got := get(); got != "" {
		t.Errorf("another user's map was believed: %s", got)
	}
}

// Very long symbols take no memory and do not hide the lines behind them.
func TestPerfMapWithLongNames(t *testing.T) {
	text := "1000 10 " + strings.Repeat("a", 1<<20) + "\n2000 10 b\n"
	found := scanPerfMap(strings.NewReader(text), []uint64{0x2000})
	if found[0x2000] != "b" || len(found) != 1 {
		t.Errorf("got %d names, %q", len(found), found[0x2000])
	}
}

// The vDSO is kernel code in each process: an ELF file that exists only in memory.
func TestVdso(t *testing.T) {
	emptyCache(t)
	var vdso *profile.Mapping
	for _, m := range Mappings(os.Getpid()) {
		if m.File == vdsoName {
			vdso = m
		}
	}
	image := newObject(ownVdso(), vdsoName)
	if vdso == nil || image == nil {
		t.Skip("no vDSO here")
	}
	symbols, err := image.elf.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	name := func(buildID string, pid int) (string, Result) {
		for _, s := range symbols {
			if s.Name != "__vdso_clock_gettime" {
				continue
			}
			m := *vdso
			m.BuildID, m.ID = buildID, 1
			loc := &profile.Location{ID: 1, Mapping: &m, Address: m.Start + s.Value + 1}
			p := &profile.Profile{Mapping: []*profile.Mapping{&m}, Location: []*profile.Location{loc}}
			result := Profile(p, Files{PID: pid})
			return loc.Line[0].Function.Name, result
		}
		t.Skip("no clock_gettime in it")
		return "", Result{}
	}
	for _, pid := range []int{0, os.Getpid()} {
		if got, _ := name(image.buildID(), pid); !strings.HasSuffix(got, "clock_gettime") {
			t.Errorf("process %d: %s", pid, got)
		}
	}
	if got, _ := name("", os.Getpid()); !strings.HasSuffix(got, "clock_gettime") {
		t.Errorf("without a build id: %s", got)
	}
	got, result := name(strings.Repeat("ab", 20), 0)
	if !strings.HasPrefix(got, "[vdso]+0x") || len(result.Missing) != 1 {
		t.Errorf("another kernel's: %s, %+v", got, result)
	}
}
