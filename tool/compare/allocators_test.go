package compare

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// places creates directories with these files and links ("a -> b").
func places(t *testing.T, folders ...[]string) []string {
	t.Helper()
	var list []string
	for _, files := range folders {
		folder, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name, target, link := strings.Cut(file, " -> ")
			path := filepath.Join(folder, name)
			if link {
				err = os.Symlink(target, path)
			} else {
				err = os.WriteFile(path, nil, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, folder)
	}
	return list
}

func finder(places []string) Finder {
	return Finder{
		Dirs:   places,
		Ours:   func() (string, error) { return "", errors.New("library not found: build it") },
		Usable: func(string) error { return nil },
	}
}

func TestFind(t *testing.T) {
	folders := places(t,
		[]string{"libjemalloc.so.1", "libtcmalloc.so.4", "libmimalloc.so.2.1", "libmimalloc.so.2.0"},
		[]string{"libjemalloc.so.2 -> libjemalloc.so.2.9", "libjemalloc.so.2.9", "libtcmalloc_minimal.so.4", "libseemalloc.so"})
	f := finder(folders)
	f.Ours = func() (string, error) { return filepath.Join(folders[1], "libseemalloc.so"), nil }
	found, missing, err := f.Find(nil)
	want := []Allocator{{Glibc, ""}, {"jemalloc", folders[1] + "/libjemalloc.so.2.9"}, {"tcmalloc", folders[1] + "/libtcmalloc_minimal.so.4"},
		{"mimalloc", folders[0] + "/libmimalloc.so.2.0"}, {Seemalloc, folders[1] + "/libseemalloc.so"}}
	if err != nil || len(missing) != 0 || !reflect.DeepEqual(found, want) {
		t.Errorf("found %v, missing %v, %v", found, missing, err)
	}
	// In the order of the arguments: by path, by name with its own library, and a known name with another path.
	other := folders[0] + "/libjemalloc.so.1"
	found, _, err = f.Find([]string{"tcmalloc", "new=" + other, "glibc", "mimalloc=" + other})
	want = []Allocator{{"tcmalloc", folders[1] + "/libtcmalloc_minimal.so.4"}, {"new", other}, {Glibc, ""}, {"mimalloc", other}}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestFindReportsMissingAllocators(t *testing.T) {
	f := finder(places(t, []string{"libjemalloc.so", "libtcmalloc.so.4", "libmimalloc.so.2 -> nowhere"}))
	found, missing, err := f.Find(nil)
	if err != nil || len(found) != 2 || found[0].Name != Glibc || found[1].Name != "tcmalloc" {
		t.Errorf("found %v, %v", found, err)
	}
	var lines []string
	for _, one := range missing {
		lines = append(lines, one.String())
	}
	want := []string{"jemalloc is not installed (Debian: libjemalloc2)", "mimalloc is not installed (Debian: libmimalloc2.0)",
		"seemalloc: library not found: build it"}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("missing: %q", lines)
	}
	// A file that cannot be used counts as missing.
	f.Usable = func(string) error { return errors.New("not a library") }
	if _, missing, err = f.Find([]string{"tcmalloc"}); err != nil || len(missing) != 1 {
		t.Errorf("%v, %v", missing, err)
	}
	if found, missing, err := finder(nil).Find(nil); err != nil || len(found) != 1 || len(missing) != 4 {
		t.Errorf("no places: found %v, missing %v, %v", found, missing, err)
	}
}

func TestFindRefuses(t *testing.T) {
	f := finder(places(t, []string{"libjemalloc.so.2"}))
	file := filepath.Join(f.Dirs[0], "libjemalloc.so.2")
	for _, test := range []struct {
		wanted []string
		text   string
	}{
		{[]string{"jmalloc"}, `unknown allocator "jmalloc": expected glibc, jemalloc, tcmalloc, mimalloc, seemalloc, or NAME=PATH`},
		{[]string{""}, `unknown allocator ""`},
		{[]string{"glibc", "jemalloc", "glibc"}, "glibc is named twice"},
		{[]string{"new=/nowhere/x.so"}, "/nowhere/x.so: no such file"},
		{[]string{"=" + file}, "not of the form NAME=PATH"},
		{[]string{"a/b=" + file}, "not of the form NAME=PATH"},
		{[]string{"new="}, "not of the form NAME=PATH"},
		{[]string{"glibc=" + file}, "choose another name"},
	} {
		if _, _, err := f.Find(test.wanted); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%q: %v", test.wanted, err)
		}
	}
	f.Usable = SharedLibrary
	if _, _, err := f.Find([]string{"new=" + file}); err == nil || !strings.Contains(err.Error(), "not a shared library") {
		t.Errorf("an empty file: %v", err)
	}
}

func TestSharedLibrary(t *testing.T) {
	if err := SharedLibrary("/a b.so"); err == nil || !strings.Contains(err.Error(), "LD_PRELOAD") {
		t.Errorf("a blank: %v", err)
	}
	if err := SharedLibrary("/etc/passwd"); err == nil {
		t.Error("a text")
	}
}

func TestEnvironment(t *testing.T) {
	env := []string{"A=1", "LD_PRELOAD=/x/libfaketime.so.1:/usr/lib/libjemalloc.so.2 libtcmalloc_minimal.so.4", "B=2"}
	for library, want := range map[string][]string{
		"/l.so": {"A=1", "B=2", "LD_PRELOAD=/l.so:/x/libfaketime.so.1"},
		"":      {"A=1", "B=2", "LD_PRELOAD=/x/libfaketime.so.1"},
	} {
		if got := Environment(env, library); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q", library, got)
		}
	}
	if got := Environment([]string{"LD_PRELOAD=libjemalloc.so.2"}, ""); len(got) != 0 {
		t.Errorf("%q", got)
	}
	options := Options([]string{"MALLOC_CONF=x:1", "MALLOC_ARENA_MAX=1", "MALLOCATOR=1", "SEEMALLOC_CONF=", "SEEMALLOC_LIB=x", "GLIBC_TUNABLES=y", "HOME=/"})
	if want := []string{"MALLOC_CONF=x:1", "MALLOC_ARENA_MAX=1", "GLIBC_TUNABLES=y"}; !reflect.DeepEqual(options, want) {
		t.Errorf("options %q", options)
	}
}

func TestLinkedAllocator(t *testing.T) {
	for maps, want := range map[string]string{
		"7f00-7f01 r-xp 0 08:01 12   /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n7f02-7f03 r--p 0 0 1 /usr/lib/libc.so.6\n": "libjemalloc.so.2",
		"7f00-7f01 r-xp 0 08:01 12   /opt/libtcmalloc_minimal.so.4.5.10 (deleted)\n":                                        "libtcmalloc_minimal.so.4.5.10",
		"7f02-7f03 r--p 0 0 1 /usr/lib/libc.so.6\n7f02-7f03 r--p 0 0 1 /srv/libjemalloc/x\n":                                "",
	} {
		if got := linkedAllocator([]byte(maps)); got != want {
			t.Errorf("%q in %s", got, maps)
		}
	}
}
