// Package e2e runs the real tool against real programs on the real library.
//
// The library is taken from $SEEMALLOC_OUT/lib, or from out/lib of this repository, where `./dev build` puts it;
// without it the tests are skipped, or fail if SEEMALLOC_REQUIRE_LIB=1. The tool and the test programs are built here.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

var (
	work      string // a directory for all build results, readable by other users
	binary    string // the tool
	leaky     string // leaky.cc compiled
	caller    string // caller.cc compiled
	sick      string // sick.cc compiled
	kinds     string // kinds.cc compiled
	heapKinds string // heap_kinds.cc compiled
	burn      string // burn.cc compiled
	threads   string // threads.cc compiled
	grow      string // grow.cc compiled
	library   string // libseemalloc.so
	problem   string // the reason why nothing can be tested, "" if there is none
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if err := prepare(); err != nil {
			problem = err.Error()
		}
		if work != "" {
			defer os.RemoveAll(work)
		}
		return m.Run()
	}())
}

func prepare() error {
	out := os.Getenv("SEEMALLOC_OUT")
	if out == "" {
		out = "../../out"
	}
	var err error
	if library, err = filepath.Abs(filepath.Join(out, "lib", "libseemalloc.so")); err != nil {
		return err
	}
	if _, err := os.Stat(library); err != nil {
		return fmt.Errorf("%s is not there: `./dev build` makes it", library)
	}
	if work, err = os.MkdirTemp("", "seemalloc-e2e"); err != nil {
		return err
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	binary, leaky, caller = filepath.Join(work, "seemalloc"), filepath.Join(work, "leaky"), filepath.Join(work, "caller")
	sick, kinds, heapKinds = filepath.Join(work, "sick"), filepath.Join(work, "kinds"), filepath.Join(work, "heap_kinds")
	burn, threads, grow = filepath.Join(work, "burn"), filepath.Join(work, "threads"), filepath.Join(work, "grow")
	if err := build("go", "build", "-o", binary, "../../tool"); err != nil {
		return err
	}
	for _, program := range []struct{ source, binary string }{{"leaky", leaky}, {"caller", caller}, {"sick", sick}, {"kinds", kinds}, {"heap_kinds", heapKinds}, {"burn", burn}, {"threads", threads}, {"grow", grow}} {
		if err := build("c++", "-std=c++20", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread",
			"-I../../core/include",
			"testdata/"+program.source+".cc", "-o", program.binary); err != nil {
			return err
		}
	}
	return nil
}

func build(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

// need skips the test, or fails it where the library is required.
func need(t *testing.T) {
	t.Helper()
	if problem == "" {
		return
	}
	if os.Getenv("SEEMALLOC_REQUIRE_LIB") == "1" {
		t.Fatal(problem)
	}
	t.Skip(problem)
}

// environment is the caller's without any seemalloc variable, plus the library's path.
func environment(more ...string) []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SEEMALLOC_") && !strings.HasPrefix(variable, "LD_PRELOAD=") {
			env = append(env, variable)
		}
	}
	return append(append(env, "SEEMALLOC_LIB="+library), more...)
}

// tool runs the tool, which must succeed and print nothing on standard error.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	out, complaint, status := try(t, args...)
	if status != 0 || complaint != "" {
		t.Fatalf("seemalloc %v: status %d, %s", args, status, complaint)
	}
	return out
}

// try runs the tool and returns its output and its status.
func try(t *testing.T, args ...string) (out, complaint string, status int) {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = environment()
	out, complaint = finish(t, command, nil)
	return out, complaint, command.ProcessState.ExitCode()
}

// finish runs the command to its end, whatever its status, and returns its output. `started`, which may be nil, is
// called once it runs.
func finish(t *testing.T, command *exec.Cmd, started func()) (out, complaint string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = work, &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if started != nil {
		started()
	}
	var exit *exec.ExitError
	if err := command.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String()
}

// program is a running test program that has printed that it is ready.
type program struct {
	*exec.Cmd
	pid   string
	stdin io.WriteCloser
	lines *bufio.Scanner
	err   *saidSoFar
}

// saidSoFar is the output of a process so far: more may follow.
type saidSoFar struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (s *saidSoFar) Write(p []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.Buffer.Write(p)
}

func (s *saidSoFar) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.Buffer.String()
}

// follower is the tool while it continues to print.
type follower struct {
	*exec.Cmd
	lines     *bufio.Reader
	complaint bytes.Buffer // to be read once it has been waited for
}

// follow starts the tool, which ends with the test at the latest.
func follow(t *testing.T, arguments ...string) *follower {
	t.Helper()
	f := &follower{Cmd: exec.Command(binary, arguments...)}
	f.Env = environment()
	f.Stderr = &f.complaint
	stdout, err := f.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	f.lines = bufio.NewReader(stdout)
	t.Cleanup(func() {
		_ = f.Process.Kill()
		_ = f.Wait()
	})
	return f
}

// launch starts command and waits for "ready"; the program ends with the test.
func launch(t *testing.T, env []string, command ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(command[0], command[1:]...), err: new(saidSoFar)}
	p.Env = environment(env...)
	p.Dir = work
	p.Stderr = p.err
	p.stdin, _ = p.StdinPipe()
	stdout, _ := p.StdoutPipe()
	p.lines = bufio.NewScanner(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = strconv.Itoa(p.Process.Pid)
	t.Cleanup(func() {
		p.stop()
		_ = p.Wait()
		if p.err.Len() != 0 && !t.Failed() {
			t.Errorf("the program said on standard error: %s", p.err)
		}
	})
	p.expect(t, "ready")
	return p
}

// leak starts the test program under `seemalloc run` with these flags.
func leak(t *testing.T, scale int, flags ...string) *program {
	t.Helper()
	args := append(append([]string{binary, "run"}, flags...), "--", leaky, strconv.Itoa(scale))
	p := launch(t, nil, args...)
	if !strings.Contains(strings.Join(flags, " "), "socket") {
		waitFor(t, socketOf(p.pid))
	}
	return p
}

func socketOf(pid string) string {
	return filepath.Join(fmt.Sprintf("/tmp/seemalloc-%d", os.Geteuid()), pid+".sock")
}

// waitFor waits for a socket: the thread that opens it runs concurrently with main, which may be ready first. A killed
// process leaves its socket behind, and a later process may have its id.
func waitFor(t *testing.T, socket string) {
	t.Helper()
	soon(t, socket+" answers", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// soon waits for a condition that becomes true eventually, however busy the machine is.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// tell sends one command and waits until it is done.
func (p *program) tell(t *testing.T, command string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "done")
}

func (p *program) stop() {
	p.stdin.Close()
	_ = p.Process.Kill()
}

func (p *program) expect(t *testing.T, line string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != line {
		t.Fatalf("the program printed %q instead of %q; standard error: %s", p.lines.Text(), line, p.err)
	}
}

// parse reads JSON that the tool printed.
// profileOf reads a file with pprof's own package.
func profileOf(t *testing.T, file string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return p
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}
