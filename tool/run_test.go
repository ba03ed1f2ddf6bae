package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// library builds an empty shared library that can be preloaded. Without a compiler it skips the test.
func library(t *testing.T, name string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command(compiler, "-shared", "-o", path, "-x", "c", "/dev/null").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestRunEnvironment(t *testing.T) {
	lib := library(t, "libseemalloc.so")
	other := library(t, "libother.so")
	env := func(env []string, flags ...string) (preload, conf string) {
		t.Helper()
		args := append(append([]string{"run", "--lib", lib}, flags...), "--", "env")
		for _, line := range lines(tool(t, env, args...).expectSuccess(t)) {
			name, value, _ := strings.Cut(line, "=")
			switch name {
			case "LD_PRELOAD":
				preload = value
			case "SEEMALLOC_CONF":
				conf = value
			}
		}
		return preload, conf
	}
	for _, test := range []struct {
		name          string
		env, flags    []string
		preload, conf string
	}{
		{"plain", nil, nil, lib, "at_start:1"},
		{"sample", nil, []string{"--sample", "64K"}, lib, "at_start:1,sample:64K"},
		{"merged, the flags last", []string{"SEEMALLOC_CONF=sample:1,purge:0"}, []string{"--conf", "purge:1", "--sample=2M"},
			lib, "at_start:1,sample:1,purge:0,purge:1,sample:2M"},
		{"other libraries stay", []string{"LD_PRELOAD=" + other}, nil, lib + ":" + other, "at_start:1"},
		{"not twice", []string{"LD_PRELOAD=" + lib + ":" + other}, nil, lib + ":" + other, "at_start:1"},
		{"a folder", nil, []string{"--lib", filepath.Dir(lib)}, lib, "at_start:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			preload, conf := env(test.env, test.flags...)
			if preload != test.preload || conf != test.conf {
				t.Errorf("LD_PRELOAD=%s SEEMALLOC_CONF=%s, want %s and %s", preload, conf, test.preload, test.conf)
			}
		})
	}
}

func TestRunFindsLibrary(t *testing.T) {
	lib := library(t, "libseemalloc.so")
	if got := tool(t, []string{"SEEMALLOC_LIB=" + lib}, "run", "--", "printenv", "LD_PRELOAD").expectSuccess(t); got != lib+"\n" {
		t.Errorf("$SEEMALLOC_LIB: got %s", got)
	}
	// The same layout as out/bin and out/lib.
	beside := filepath.Join(filepath.Dir(filepath.Dir(binary)), "lib", "libseemalloc.so")
	if err := os.MkdirAll(filepath.Dir(beside), 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(beside))
	if out, err := exec.Command("cp", lib, beside).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if got := tool(t, nil, "run", "--", "printenv", "LD_PRELOAD").expectSuccess(t); got != beside+"\n" {
		t.Errorf("beside: got %s", got)
	}
}

func TestRunStatus(t *testing.T) {
	lib := library(t, "libseemalloc.so")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result { return tool(t, nil, append([]string{"run", "--lib", lib}, args...)...) }
	run("--", "no-such-command").expectFailure(t, 127, "no-such-command", "not found")
	run("--", "/no/such/command").expectFailure(t, 127, "/no/such/command", "not found")
	run("--", plain).expectFailure(t, 126, plain, "executable")
	run("--", broken).expectFailure(t, 127, broken, "interpreter")
	if r := run("--", "sh", "-c", "exit 7"); r.status != 7 || r.err != "" {
		t.Errorf("the program's own status: %+v", r)
	}
	// Without --, flags after the program's name belong to the program.
	if r := run("sh", "-c", "echo $0 $1", "--sample", "--lib"); r.out != "--sample --lib\n" {
		t.Errorf("%+v", r)
	}
	blank := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(blank, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blank, "libseemalloc.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, nil, "run", "--lib", blank, "--", "true").expectFailure(t, 1, "blank", "LD_PRELOAD")
}

// musl's loader would end the program because of a missing glibc symbol. The tool does not start it and prints the
// reason.
func TestRunRefusesProgramsOfMusl(t *testing.T) {
	const loader = "/lib/ld-musl-x86_64.so.1"
	lib, program := library(t, "libseemalloc.so"), filepath.Join(t.TempDir(), "small") // an empty library has no dependencies
	for _, flags := range [][]string{{"-shared", "-Wl,--no-as-needed", "-o", lib}, {"-Wl,--dynamic-linker=" + loader, "-o", program}} {
		build := exec.Command("cc", append(flags, "-x", "c", "-")...)
		build.Stdin = strings.NewReader("int main(void) { return 0; }\n")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!"+program+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := "seemalloc: " + program + " is linked with musl, whose loader (" + loader + ") cannot load " + lib +
		", which needs glibc: link it statically with libseemalloc.a instead\n"
	for _, path := range []string{program, script} {
		if r := tool(t, nil, "run", "--lib", lib, "--", path); r.status != 126 || r.err != want || r.out != "" {
			t.Errorf("%+v\nwant %s", r, want)
		}
	}
}

// LD_PRELOAD has no effect on a static program. A warning is better than an empty ps.
func TestRunWarnsOfStaticPrograms(t *testing.T) {
	lib := library(t, "libseemalloc.so")
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\nfunc main() { println() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(t.TempDir(), "static")
	build := exec.Command("go", "build", "-o", static, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := tool(t, nil, "run", "--lib", lib, "--", static)
	if r.status != 0 || !strings.HasPrefix(r.err, "seemalloc: warning: static is statically linked") {
		t.Errorf("%+v", r)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!"+static+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := tool(t, nil, "run", "--lib", lib, "--", script); !strings.Contains(r.err, "statically linked") {
		t.Errorf("a script of a static interpreter: %+v", r)
	}
}
