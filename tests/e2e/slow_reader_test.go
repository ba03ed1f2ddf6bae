package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// raw is a connection that implements the protocol directly, so that it can read arbitrarily slowly.
type raw struct {
	net.Conn
	in *bufio.Reader
}

// connect authenticates the client to the process, if the process asks for it.
func connect(t *testing.T, pid string) raw {
	t.Helper()
	conn, err := net.Dial("unix", socketIn(t, pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := raw{conn, bufio.NewReaderSize(conn, 4096)}
	number, err := r.ask("prove")
	if err != nil {
		return r
	}
	link, err := os.Readlink("/proc/" + pid + "/fd/" + string(number))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSuffix(strings.TrimPrefix(link, "/memfd:seemalloc:"), " (deleted)")
	if _, err := r.ask("prove " + secret); err != nil {
		t.Fatal(err)
	}
	return r
}

// socketIn is the path of the process's socket, from its own statistics.
func socketIn(t *testing.T, pid string) string {
	t.Helper()
	paths, _ := filepath.Glob("/tmp/seemalloc-*/" + pid + ".sock")
	if len(paths) != 1 {
		t.Fatalf("sockets of %s: %v", pid, paths)
	}
	return paths[0]
}

func (r raw) ask(line string) ([]byte, error) {
	if _, err := io.WriteString(r, line+"\n"); err != nil {
		return nil, err
	}
	return r.answer()
}

// answer reads one answer.
func (r raw) answer() ([]byte, error) {
	head, err := r.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var length int
	if n, _ := fmt.Sscanf(head, "ok %d\n", &length); n != 1 {
		return nil, fmt.Errorf("answered %q", head)
	}
	payload := make([]byte, length)
	_, err = io.ReadFull(r.in, payload)
	return payload, err
}

// wide starts a program with a profile larger than the kernel's socket buffer: it has many stacks. "f" makes it fork a
// child that has a helper thread of its own, "e" ends the child.
func wide(t *testing.T) *program {
	t.Helper()
	source, binaryOf := filepath.Join(t.TempDir(), "wide.c"), filepath.Join(t.TempDir(), "wide")
	code := `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { kDepth = 14, kStacks = 1 << kDepth };
static char* kept[kStacks];
__attribute__((noinline)) static void* left(int way, int depth);
__attribute__((noinline)) static void* right(int way, int depth);
static void* go(int way, int depth) {
  if (depth == 0) return malloc(500);
  void* block = way & 1 ? left(way >> 1, depth - 1) : right(way >> 1, depth - 1);
  __asm__ volatile("" : "+r"(block));
  return block;
}
static void* left(int way, int depth) { return go(way, depth); }
static void* right(int way, int depth) {
  void* block = go(way, depth);
  __asm__ volatile("" : "+r"(block));
  return block;
}
int main(void) {
  for (int i = 0; i < kStacks; i++) memset(kept[i] = go(i, kDepth), 1, 500);
  puts("ready"), fflush(stdout);
  for (int c; (c = getchar()) != EOF;) {
    if (c != 'f') continue;
    int wait_here[2];
    if (pipe(wait_here)) return 1;
    pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < kStacks; i++) memset(kept[i] = realloc(kept[i], 900), 2, 900);
      char end;
      close(wait_here[1]);
      _exit(read(wait_here[0], &end, 1) != 1);
    }
    close(wait_here[0]);
    printf("%d\n", child), fflush(stdout);
    if (getchar() != 'e' || write(wait_here[1], "e", 1) != 1) return 1;
    close(wait_here[1]);
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", status), fflush(stdout);
  }
}`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build("cc", "-O1", "-fno-optimize-sibling-calls", source, "-o", binaryOf); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, binary, "run", "--sample", "1", "--", binaryOf)
	waitFor(t, socketOf(p.pid))
	return p
}

// slow reads a few bytes at a time until hurry is closed.
type slow struct {
	net.Conn
	hurry chan struct{}
}

func (s slow) Read(into []byte) (int, error) {
	select {
	case <-s.hurry:
	case <-time.After(25 * time.Millisecond):
		into = into[:min(len(into), 512)]
	}
	return s.Conn.Read(into)
}

// readSlowly requests many profiles, statistics and parts of a trace at once, and reads the answers slowly, until hurry
// is closed. The channel delivers the first error, or nil at the end.
func readSlowly(t *testing.T, pid string, hurry chan struct{}) <-chan error {
	t.Helper()
	r := connect(t, pid)
	number, err := r.ask("trace start")
	if err != nil {
		t.Fatal(err)
	}
	r.in = bufio.NewReaderSize(slow{r.Conn, hurry}, 512)
	const times = 5
	commands := []string{"profile heap", "stats", "trace read " + string(number), "options"}
	done := make(chan error, 1)
	go func() { // the process does not read all requests before its answers are read
		_, _ = io.WriteString(r, strings.Repeat(strings.Join(commands, "\n")+"\n", times))
	}()
	go func() {
		done <- func() error {
			for i := range times * len(commands) {
				payload, err := r.answer()
				command := commands[i%len(commands)]
				switch ended := err != nil && strings.Contains(err.Error(), "this trace has ended"); {
				case ended && i%len(commands) == 2: // it was read too slowly
					continue
				case err != nil:
					return fmt.Errorf("%d, %s: %w", i, command, err)
				}
				var problem error
				switch i % len(commands) {
				case 0:
					_, problem = profile.ParseData(payload)
				case 1:
					problem = json.Unmarshal(payload, new(map[string]any))
				default:
					if !strings.HasSuffix(string(payload), "\n") {
						problem = fmt.Errorf("it ends with %q", payload[max(0, len(payload)-20):])
					}
				}
				if problem != nil {
					return fmt.Errorf("%d, %s: %w", i, command, problem)
				}
			}
			return nil
		}()
	}()
	return done
}

// Other clients are answered while one client reads long answers slowly, and it gets all of them.
func TestSlowReaderBlocksNoOtherClient(t *testing.T) {
	need(t)
	p := wide(t)
	hurry := make(chan struct{})
	slowly := readSlowly(t, p.pid, hurry)
	for range 10 {
		if got := tool(t, "get", p.pid, "sample"); got != "1\n" {
			t.Errorf("%q", got)
		}
	}
	tool(t, "profile", p.pid, "-o", filepath.Join(t.TempDir(), "x.pb.gz"))
	finishReading(t, slowly, hurry)
}

// A forked child has its own socket, and neither its start nor its end interrupts an answer that the parent is sending.
func TestForkDuringAnAnswer(t *testing.T) {
	need(t)
	p := wide(t)
	hurry := make(chan struct{})
	slowly := readSlowly(t, p.pid, hurry)
	say := func(text string) string {
		if _, err := io.WriteString(p.stdin, text); err != nil || !p.lines.Scan() {
			t.Fatalf("the program is gone: %v", err)
		}
		return p.lines.Text()
	}
	for range 3 {
		child := say("f")
		waitFor(t, socketOf(child))
		if s := statsOf(t, child); strconv.Itoa(s.PID) != child {
			t.Errorf("process %d answers for %s", s.PID, child)
		}
		if s := statsOf(t, p.pid); strconv.Itoa(s.PID) != p.pid {
			t.Errorf("process %d answers for %s", s.PID, p.pid)
		}
		if status := say("e"); status != "0" {
			t.Errorf("the child's status is %s", status)
		}
	}
	finishReading(t, slowly, hurry)
}

// finishReading expects the slow client to be still reading, and lets it read the rest at once.
func finishReading(t *testing.T, slowly <-chan error, hurry chan<- struct{}) {
	t.Helper()
	select {
	case err := <-slowly:
		t.Errorf("the slow client has read all already: %v", err)
		return
	default:
	}
	close(hurry)
	if err := <-slowly; err != nil {
		t.Error(err)
	}
}
