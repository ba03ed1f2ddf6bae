package symbolize

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// expectFull checks names, inlined frames, files and lines of every mark.
func expectFull(t *testing.T, get func(mark string) string) {
	t.Helper()
	at := func(name string) string { return fmt.Sprintf("marks.cc:%d", lineOf(t, name)) }
	for mark, want := range map[string]string{
		"inlined": "shop::Basket::put " + at("inlined") + " < shop::Basket::add " + at("add") + " < shop::fill " + at("fill"),
		"plain":   "plain_c " + at("plain"),
		"after":   "open_till " + at("after"),
		// Both compilers inline a constructor that is called once.
		"constructor": "shop::Till::Till " + at("constructor") + " < open_till " + at("open"),
		"anonymous":   "shop::(anonymous namespace)::hidden " + at("anonymous"),
	} {
		if got := get(mark); got != want {
			t.Errorf("%s:\n got %s\nwant %s", mark, got, want)
		}
	}
	// gcc and clang name an inlined lambda differently.
	lambda := regexp.MustCompile(`^shop::serve\S*::\S*(operator\(\)|\{lambda.*\}|lambda|'lambda.*')\S* ` + at("lambda") + ` < shop::serve ` + at("serve") + `$`)
	if got := get("lambda"); !lambda.MatchString(got) {
		t.Errorf("lambda: got %s", got)
	}
}

var compilers = map[string][]string{
	"g++":     {"g++"},
	"clang++": {"clang++", "clang++-19", "clang++-16", "clang++-14"},
}

func TestCompilers(t *testing.T) {
	for _, test := range []struct {
		name, compiler string
		flags          []string
	}{
		{"gcc pie", "g++", []string{"-pie", "-fPIE"}},
		{"gcc fixed address", "g++", []string{"-no-pie", "-fno-pie"}},
		{"gcc compressed", "g++", []string{"-gz=zlib"}},
		{"gcc dwarf 4", "g++", []string{"-gdwarf-4"}},
		{"gcc lto", "g++", []string{"-flto"}},
		{"clang dwarf 5", "clang++", []string{"-gdwarf-5"}},
		{"clang dwarf 4", "clang++", []string{"-gdwarf-4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := compileWith(t, tool(t, compilers[test.compiler]...), test.flags...)
			program := start(t, path)
			p := program.profile(t, idOf(t, path))
			result := Profile(p, Files{PID: program.pid})
			expectFull(t, func(mark string) string { return stack(p, mark) })
			if result.Debug != len(program.marks) || len(result.Missing) != 0 {
				t.Errorf("result %+v", result)
			}
			if err := p.CheckValid(); err != nil {
				t.Error(err)
			}
			if m := p.Mapping[0]; !m.HasFunctions || !m.HasFilenames || !m.HasLineNumbers || !m.HasInlineFrames {
				t.Errorf("mapping flags not set: %+v", m)
			}
		})
	}
}

// A saved profile of a process that has ended.
func TestSavedProfile(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	p := program.profile(t, idOf(t, path))
	Profile(p, Files{})
	expectFull(t, func(mark string) string { return stack(p, mark) })
}

func TestSeparateDebugFiles(t *testing.T) {
	objcopy, strip := tool(t, "objcopy"), tool(t, "strip")
	path := compile(t)
	dir := filepath.Dir(path)
	id := idOf(t, path)
	debugFile := filepath.Join(dir, "marks.debug")
	run(t, objcopy, "--only-keep-debug", path, debugFile)
	run(t, strip, "--strip-all", path)
	run(t, objcopy, "--add-gnu-debuglink="+debugFile, path)

	byID := filepath.Join(dir, "debug", ".build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(byID), 0o755); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(dir, ".debug")
	if err := os.Mkdir(hidden, 0o755); err != nil {
		t.Fatal(err)
	}
	program := start(t, path)
	for _, place := range []string{debugFile, filepath.Join(hidden, "marks.debug"), byID} {
		t.Run(strings.TrimPrefix(place, dir), func(t *testing.T) {
			if place != debugFile {
				if err := os.Rename(debugFile, place); err != nil {
					t.Fatal(err)
				}
				defer os.Rename(place, debugFile)
			}
			p := program.profile(t, id)
			Profile(p, Files{PID: program.pid, DebugDirs: []string{filepath.Join(dir, "debug")}})
			expectFull(t, func(mark string) string { return stack(p, mark) })
		})
	}
	t.Run("only the debug file is left", func(t *testing.T) {
		if err := os.Rename(debugFile, byID); err != nil {
			t.Fatal(err)
		}
		p := program.profile(t, id)
		for _, m := range p.Mapping {
			m.File = strings.Replace(m.File, path, "/nowhere/marks", 1)
		}
		Profile(p, Files{DebugDirs: []string{filepath.Join(dir, "debug")}})
		expectFull(t, func(mark string) string { return stack(p, mark) })
	})
}

// The file is deleted and replaced by another one while the program runs.
func TestReplacedWhileRunning(t *testing.T) {
	path := compile(t)
	id := idOf(t, path)
	program := start(t, path)
	p := program.profile(t, id)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("something else that is long enough to be a file with a header, but is none"), 0o755); err != nil {
		t.Fatal(err)
	}
	result := Profile(p, Files{PID: program.pid})
	expectFull(t, func(mark string) string { return stack(p, mark) })
	if len(result.Missing) != 0 {
		t.Errorf("missing %v", result.Missing)
	}
}

// A file with a different build id must not be used.
func TestWrongBuildID(t *testing.T) {
	path := compile(t)
	program := start(t, path)
	p := program.profile(t, strings.Repeat("ab", 20))
	result := Profile(p, Files{})
	if len(result.Missing) != 1 || result.Missing[0] != path {
		t.Errorf("missing %v, want %s", result.Missing, path)
	}
	if got := stack(p, "plain"); !strings.HasPrefix(got, "marks+0x") {
		t.Errorf("got %s", got)
	}
	if p.Mapping[0].HasFunctions {
		t.Error("made-up names are called function names, so pprof would not look for better ones")
	}
}

func TestStripped(t *testing.T) {
	strip := tool(t, "strip")
	t.Run("symbols without debug information", func(t *testing.T) {
		path := compile(t, "-g0")
		program := start(t, path)
		p := program.profile(t, idOf(t, path))
		result := Profile(p, Files{PID: program.pid})
		for mark, want := range map[string]string{"inlined": "shop::fill", "plain": "plain_c", "anonymous": "shop::(anonymous namespace)::hidden"} {
			if got := stack(p, mark); got != want {
				t.Errorf("%s: got %s, want %s", mark, got, want)
			}
		}
		if result.Symbol != len(program.marks) {
			t.Errorf("result %+v", result)
		}
	})
	t.Run("dynamic symbols only", func(t *testing.T) {
		path := compile(t, "-rdynamic")
		run(t, strip, "--strip-all", path)
		program := start(t, path)
		p := program.profile(t, idOf(t, path))
		Profile(p, Files{PID: program.pid})
		if got := stack(p, "inlined"); got != "shop::fill" {
			t.Errorf("exported: got %s", got)
		}
		if got := stack(p, "anonymous"); !strings.HasPrefix(got, "marks+0x") {
			t.Errorf("not exported: got %s", got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		path := compile(t)
		run(t, strip, "--strip-all", path)
		program := start(t, path)
		p := program.profile(t, idOf(t, path))
		result := Profile(p, Files{PID: program.pid})
		if result.Unwind != len(program.marks) {
			t.Errorf("result %+v", result)
		}
		// Two marks in one function have the same name, from the unwind table.
		if a, b := stack(p, "constructor"), stack(p, "after"); a != b || !strings.HasPrefix(a, "marks+0x") {
			t.Errorf("got %s and %s", a, b)
		}
	})
}

func TestRust(t *testing.T) {
	rustc := tool(t, "rustc")
	for _, flags := range [][]string{{}, {"-C", "symbol-mangling-version=v0"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			emptyCache(t)
			path := filepath.Join(t.TempDir(), "marks")
			args := append([]string{"-O", "-g", "-C", "link-arg=-Wl,--build-id", "testdata/marks.rs", "-o", path}, flags...)
			if out, err := exec.Command(rustc, args...).CombinedOutput(); err != nil {
				t.Skipf("rustc: %v\n%s", err, out)
			}
			program := start(t, path)
			p := program.profile(t, idOf(t, path))
			Profile(p, Files{PID: program.pid})
			want := regexp.MustCompile(`^marks::here marks\.rs:\d+ < <?marks::Basket\S*::put marks\.rs:\d+ < <?marks::Basket\S*::fill marks\.rs:\d+$`)
			if got := stack(p, "inlined"); !want.MatchString(got) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// The formats of debug sections that compilers and packagers use.
func TestCompressedSections(t *testing.T) {
	objcopy := tool(t, "objcopy")
	for _, kind := range []string{"zlib", "zlib-gnu", "zstd"} {
		t.Run(kind, func(t *testing.T) {
			path := compile(t)
			if out, err := exec.Command(objcopy, "--compress-debug-sections="+kind, path).CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, out)
			}
			program := start(t, path)
			p := program.profile(t, idOf(t, path))
			Profile(p, Files{})
			expectFull(t, func(mark string) string { return stack(p, mark) })
		})
	}
}

// dwz moves data shared by several debug files to a separate file, including names.
func TestSharedDebugFile(t *testing.T) {
	dwz := tool(t, "dwz")
	path := compile(t)
	dir := filepath.Dir(path)
	id := idOf(t, path)
	if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	// dwz needs two programs to have shared data.
	other := filepath.Join(dir, "x", "other")
	run(t, tool(t, "g++", "clang++"), "-O2", "-g", "-DOTHER", "-Wl,--build-id", "testdata/marks.cc", "-o", other)
	shared := filepath.Join(dir, "shared.debug")
	run(t, dwz, "-m", shared, path, other)
	program := start(t, path)
	look := func(files Files) (*profile.Profile, Result) {
		p := program.profile(t, id)
		return p, Profile(p, files)
	}
	if err := os.Rename(shared, shared+".away"); err != nil {
		t.Fatal(err)
	}
	p, _ := look(Files{})
	if got := stack(p, "plain"); !strings.HasPrefix(got, "plain_c marks.cc:") {
		t.Errorf("without the shared file: %s", got)
	}
	if err := os.Rename(shared+".away", shared); err != nil {
		t.Fatal(err)
	}
	p, result := look(Files{})
	expectFull(t, func(mark string) string { return stack(p, mark) })
	if result.Known != 0 {
		t.Errorf("what was known without it is still used: %+v", result)
	}
	emptyCache(t)
	elsewhere := t.TempDir()
	if err := os.Rename(shared, filepath.Join(elsewhere, "shared.debug")); err != nil {
		t.Fatal(err)
	}
	p, _ = look(Files{DebugDirs: []string{elsewhere}})
	expectFull(t, func(mark string) string { return stack(p, mark) })
}

// The user must be told why there are no symbols: the file is a different one, or missing.
func TestReplacedSince(t *testing.T) {
	path := compile(t)
	id := idOf(t, path)
	program := start(t, path)
	dir := t.TempDir()
	kept := filepath.Join(dir, "marks")
	if err := os.Rename(path, kept); err != nil {
		t.Fatal(err)
	}
	saved := func() *profile.Profile {
		p := program.profile(t, id)
		for _, m := range p.Mapping {
			if m.File == kept {
				m.File, m.BuildID = path, id
			}
		}
		return p
	}
	p := saved()
	result := Profile(p, Files{})
	if want := path + ": no such file; functions in it are shown as marks+0x… (--debug-dir DIR names"; len(result.Notes) != 1 || !strings.HasPrefix(result.Notes[0], want) {
		t.Errorf("gone: %q", result.Notes)
	}
	if got := stack(p, "plain"); !strings.HasPrefix(got, "marks+0x") {
		t.Errorf("gone: %s", got)
	}
	run(t, tool(t, "g++", "clang++"), "-O1", "-Wl,--build-id", "testdata/marks.cc", "-o", path)
	again := saved()
	result = Profile(again, Files{})
	want := fmt.Sprintf("%s: not the file that ran (replaced since?): its build id is %s…, the profile's %s…;", path, idOf(t, path)[:12], id[:12])
	if len(result.Notes) != 1 || !strings.HasPrefix(result.Notes[0], want) {
		t.Errorf("replaced: %q, want %q", result.Notes, want)
	}
	// With the right file the symbols are found, even for a profile that was saved without them.
	for _, p := range []*profile.Profile{again, saved()} {
		if result := Profile(p, Files{DebugDirs: []string{dir}}); len(result.Notes) != 0 {
			t.Errorf("%q", result.Notes)
		}
		expectFull(t, func(mark string) string { return stack(p, mark) })
	}
}

// Many missing files give a single line.
func TestNumberOfAnswersIsBounded(t *testing.T) {
	emptyCache(t)
	p := &profile.Profile{}
	for i := range uint64(9) {
		m := &profile.Mapping{ID: i + 1, Start: i * 0x1000, Limit: i*0x1000 + 0x1000, File: fmt.Sprintf("/nowhere/lib%d.so", i)}
		p.Mapping = append(p.Mapping, m)
		p.Location = append(p.Location, &profile.Location{ID: i + 1, Mapping: m, Address: i*0x1000 + 16})
	}
	var said []string
	Profile(p, Files{Notify: func(line string) { said = append(said, line) }})
	if len(said) != 1 || !strings.HasPrefix(said[0], "/nowhere/lib0.so, /nowhere/lib1.so, /nowhere/lib2.so, 6 more: no such file; functions in it are shown as FILE+0x…") {
		t.Errorf("%q", said)
	}
}
