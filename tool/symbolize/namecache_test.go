package symbolize

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// gone builds a saved profile of a program without its file: the path of its mapping does not exist.
func (p *program) gone(t *testing.T, id string) *profile.Profile {
	t.Helper()
	saved := p.profile(t, id)
	for _, m := range saved.Mapping {
		if m.File == p.path {
			m.File = "/nowhere/marks"
		}
	}
	return saved
}

// A profile that has been symbolized before is symbolized without its files.
func TestNamesAreCached(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	id := idOf(t, path)
	first := Profile(program.profile(t, id), Files{PID: program.pid})
	if first.Known != 0 || first.Debug != len(program.marks) {
		t.Errorf("the first time: %+v", first)
	}
	for _, saved := range []*profile.Profile{program.profile(t, id), program.gone(t, id)} {
		result := Profile(saved, Files{})
		expectFull(t, func(mark string) string { return stack(saved, mark) })
		if result.Known != len(program.marks) || result.Debug != result.Known || len(result.Notes) != 0 {
			t.Errorf("the second time: %+v", result)
		}
	}
}

// New symbols of a second profile are added to the cached ones.
func TestNamesAreAdded(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	id := idOf(t, path)
	some := *program
	some.marks = maps.Clone(program.marks)
	delete(some.marks, "plain")
	delete(some.marks, "lambda")
	Profile(some.profile(t, id), Files{})
	both := program.profile(t, id)
	if result := Profile(both, Files{}); result.Known != len(some.marks) || result.Debug != len(program.marks) {
		t.Errorf("%+v", result)
	}
	expectFull(t, func(mark string) string { return stack(both, mark) })
	all := program.gone(t, id)
	if result := Profile(all, Files{}); result.Known != len(program.marks) {
		t.Errorf("%+v", result)
	}
	expectFull(t, func(mark string) string { return stack(all, mark) })
}

// Debug information that appears later replaces cached symbols from a symbol table.
func TestBetterNamesReplaceCachedOnes(t *testing.T) {
	objcopy, strip := tool(t, "objcopy"), tool(t, "strip")
	path := compile(t)
	id := idOf(t, path)
	debugDir := t.TempDir()
	debugFile := filepath.Join(debugDir, ".build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debugFile), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, objcopy, "--only-keep-debug", path, debugFile+".away")
	run(t, strip, "--strip-debug", path)
	program := start(t, path)
	files := Files{DebugDirs: []string{debugDir}}
	for range 2 {
		p := program.profile(t, id)
		if result := Profile(p, files); result.Symbol != len(program.marks) || stack(p, "inlined") != "shop::fill" {
			t.Errorf("%+v, %s", result, stack(p, "inlined"))
		}
	}
	if p := program.gone(t, id); Profile(p, files).Known != len(program.marks) || stack(p, "inlined") != "shop::fill" {
		t.Error("symbols are not remembered")
	}
	if err := os.Rename(debugFile+".away", debugFile); err != nil {
		t.Fatal(err)
	}
	p := program.profile(t, id)
	if result := Profile(p, files); result.Debug != len(program.marks) || result.Known != 0 {
		t.Errorf("%+v", result)
	}
	expectFull(t, func(mark string) string { return stack(p, mark) })
}

// A file without a build id is cached by its identity: another file at the same path does not match.
func TestFilesWithoutBuildID(t *testing.T) {
	path := compile(t, "-Wl,--build-id=none")
	program := start(t, path)
	p := program.profile(t, "")
	Profile(p, Files{})
	p = program.profile(t, "")
	if result := Profile(p, Files{}); result.Known != len(program.marks) || len(result.Notes) != 0 {
		t.Errorf("%+v", result)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	p = program.profile(t, "")
	p.TimeNanos = 1 // long before the file was modified
	for _, m := range p.Mapping {
		m.File = strings.TrimSuffix(m.File, ".old") // /proc/PID/maps shows the file's new name after a rename
	}
	result := Profile(p, Files{})
	if result.Known != 0 || len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "modified after the profile was taken") {
		t.Errorf("%+v", result)
	}
}

// onlyEntry returns the path of the entry of the only symbolized program.
func onlyEntry(t *testing.T, key string) string {
	t.Helper()
	return filepath.Join(os.Getenv("XDG_CACHE_HOME"), "seemalloc", "names", key)
}

func TestDamagedEntriesAreRewritten(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	id := idOf(t, path)
	Profile(program.profile(t, id), Files{})
	entry := onlyEntry(t, id)
	good, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	version := slices.Clone(good)
	version[len(namesMagic)]++
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	for name, bad := range map[string][]byte{
		"empty": {}, "text": []byte("not an entry at all, but long enough for a header"), "cut": good[:len(good)-7],
		"longer": append(slices.Clone(good), 0), "version": version, "flipped": flipped,
	} {
		if err := os.WriteFile(entry, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		p := program.profile(t, id)
		if result := Profile(p, Files{}); result.Known != 0 || result.Debug != len(program.marks) {
			t.Errorf("%s: %+v", name, result)
		}
		expectFull(t, func(mark string) string { return stack(p, mark) })
		if now, _ := os.ReadFile(entry); !bytes.Equal(now, good) {
			t.Errorf("%s: not written anew", name)
		}
	}
}

func someNames() *names {
	return &names{
		debug: true, missingAlternate: true, missingSplit: []string{"/a.dwo", "/b.dwo"},
		segments: segments{list: []segment{{0x1000, 0x2000, 0x401000}, {0x3000, 1, 0xffffffffff000000}}, debugOnly: true},
		resolutions: map[uint64]resolution{
			0:                  {how: sourceNone, frames: []frame{}},
			0x401234:           {how: fromDebug, frames: []frame{{"_Z1fv", "f", "", "f.cc", 12, 10}, {"", "", "{lambda}", "g.cc", 7, 0}}},
			0x401235:           {how: fromUnwind, start: 0x401200, frames: []frame{}},
			0xffffffffff000001: {how: fromSymbol, frames: []frame{{system: "g", short: "g"}}},
		},
	}
}

func TestEntryRoundTrip(t *testing.T) {
	n := someNames()
	data := encodeNames(n, "abcd")
	if !bytes.Equal(data, encodeNames(n, "abcd")) {
		t.Error("not the same bytes each time")
	}
	if got := decodeNames(data, "abcd"); !reflect.DeepEqual(got, n) {
		t.Errorf("got %+v, want %+v", got, n)
	}
	if decodeNames(data, "abce") != nil {
		t.Error("another file's entry was read")
	}
	// Every changed byte is detected, and every truncation.
	for i := range data {
		changed := slices.Clone(data)
		changed[i] ^= 1 << (i % 8)
		if decodeNames(changed, "abcd") != nil {
			t.Errorf("a change of byte %d was not noticed", i)
		}
		if decodeNames(data[:i], "abcd") != nil {
			t.Errorf("cut at %d, and read", i)
		}
	}
}

// With a valid checksum the reader alone must handle invalid data.
func TestInvalidAnswersAreRejected(t *testing.T) {
	data := encodeNames(someNames(), "abcd")[headerBytes:]
	for i := range data {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			changed := slices.Clone(data)
			changed[i] = b
			r := namesReader{data: changed}
			readNames(&r, "abcd") // must neither panic nor exhaust the memory
		}
	}
}

func TestTooManyAddresses(t *testing.T) {
	emptyCache(t)
	s := openStore()
	n := &names{resolutions: map[uint64]resolution{}, changed: true, debug: true}
	for i := range uint64(maxAddresses) {
		n.resolutions[i] = resolution{}
	}
	wanted := map[uint64]resolution{7: {how: fromUnwind, start: 1}}
	s.save("abcdabcd", n, wanted)
	if got := s.load("abcdabcd"); got == nil || len(got.resolutions) != maxAddresses {
		t.Fatal("not kept, though it is not too much")
	}
	n.resolutions[maxAddresses] = resolution{}
	s.save("abcdabcd", n, wanted)
	if got := s.load("abcdabcd"); got == nil || len(got.resolutions) != 1 || got.resolutions[7].start != 1 || !got.debug {
		t.Errorf("got %v", got)
	}
}

// Build ids of other tools are not valid file names.
func TestFileKey(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"0123456789abcdef", "0123456789ABCDEF", "../../etc/passwd", "Go/build/id", "ab", strings.Repeat("ab", 200)} {
		name := fileKey(key)
		if strings.ContainsAny(name, "/") || strings.HasPrefix(name, ".") || len(name) > 130 {
			t.Errorf("%q is kept as %q", key, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both kept as %q", key, other, name)
		}
		seen[name] = key
	}
}

func TestWithoutCache(t *testing.T) {
	path := compile(t)
	t.Setenv("XDG_CACHE_HOME", "/dev/null")
	program := start(t, path)
	for range 2 {
		p := program.profile(t, idOf(t, path))
		if result := Profile(p, Files{}); result.Known != 0 || len(result.Notes) != 0 {
			t.Errorf("%+v", result)
		}
		expectFull(t, func(mark string) string { return stack(p, mark) })
	}
}
