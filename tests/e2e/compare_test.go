package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// comparison is the part of `compare --json` that the tests read.
type comparison struct {
	Seed       uint64
	Threads    int
	Allocators []struct{ Name, Library string }
	Excluded   []struct{ Name, Reason string }
	Notes      []string
	Measures   []struct {
		Key        string
		Allocators map[string]struct{ Median, Ratio float64 }
	}
	Runs []struct {
		Allocator, Ending string
		Round             int
		Library           string `json:"library_seen"`
		Values            map[string]float64
	}
}

func (c *comparison) median(t *testing.T, key, allocator string) float64 {
	t.Helper()
	for _, measure := range c.Measures {
		if cell, ok := measure.Allocators[allocator]; ok && measure.Key == key {
			return cell.Median
		}
	}
	t.Errorf("no %s of %s in %+v", key, allocator, c.Measures)
	return 0
}

// all reports whether the value of each run is at least `least`.
func (c *comparison) all(key string, least float64) bool {
	return len(c.Runs) > 0 && !slices.ContainsFunc(c.Runs, func(run struct {
		Allocator, Ending string
		Round             int
		Library           string `json:"library_seen"`
		Values            map[string]float64
	}) bool {
		return run.Values[key] < least
	})
}

// churn compiles the test program.
func churn(t *testing.T, flags ...string) string {
	t.Helper()
	need(t)
	program := filepath.Join(t.TempDir(), "churn")
	if err := build(append(append([]string{"cc", "-O1"}, flags...), "testdata/churn.c", "-o", program)...); err != nil {
		t.Skip(err)
	}
	return program
}

// script writes an executable shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const both = "--alloc=glibc,seemalloc"

func TestCompare(t *testing.T) {
	program := churn(t)
	var c comparison
	parse(t, tool(t, "compare", both, "--json", "--seed", "7", "--", program), &c)
	if c.Seed != 7 || c.Threads != 1 || len(c.Runs) != 10 || len(c.Excluded) != 0 || len(c.Allocators) != 2 || c.Allocators[1].Library != library {
		t.Errorf("%+v", c)
	}
	for _, run := range c.Runs {
		if run.Ending != "exit 0" || run.Round < 1 || run.Round > 5 || run.Allocator == "seemalloc" && run.Library != "yes" {
			t.Errorf("%+v", run)
		}
	}
	const live = 32 << 20
	for _, name := range []string{"glibc", "seemalloc"} {
		if wall, cpu := c.median(t, "wall_s", name), c.median(t, "cpu_s", name); wall < 0.2 || cpu <= 0 {
			t.Errorf("%s: wall %g, CPU %g", name, wall, cpu)
		}
		// At the end half of it is free; whether that has been returned to the OS depends on the allocator.
		if peak, final := c.median(t, "peak_rss", name), c.median(t, "final_rss", name); peak < live || peak > live*3/2 || final < live/2 || final > peak {
			t.Errorf("%s: peak %g, final %g", name, peak, final)
		}
		if faults := c.median(t, "minor_faults", name); faults < 100 {
			t.Errorf("%s: %g page faults", name, faults)
		}
		c.median(t, "switches", name)
		c.median(t, "major_faults", name)
	}
}

func TestCompareText(t *testing.T) {
	program := churn(t)
	folder := filepath.Join(t.TempDir(), "kept")
	text := tool(t, "compare", both, "--rounds", "2", "--seed", "9", "--keep-output", folder, "--", program)
	for _, want := range []string{program + "\n2 rounds, 1 thread, seed 9\n", "  glibc      the C library's own\n", "  seemalloc  " + library + "\n",
		"\nwall time ", "\nCPU (user + system) ", "\npeak RSS ", "\nfinal RSS ", "\nminor page faults ", "\nmajor page faults ", "\ncontext switches ",
		" best", "no difference to the best can be called"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, name := range []string{"glibc.0", "glibc.1", "glibc.2", "seemalloc.1", "seemalloc.2"} {
		if out, err := os.ReadFile(filepath.Join(folder, name+".out")); err != nil || string(out) != "done\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestCompareExcludesWhatFails(t *testing.T) {
	need(t)
	for name, test := range map[string]struct{ script, reason string }{
		"status": {`case "$LD_PRELOAD" in *seemalloc*) echo out of luck >&2; exit 3;; esac; sleep 0.05`, "exit 3 instead of exit 0: out of luck"},
		"signal": {`case "$LD_PRELOAD" in *seemalloc*) kill -SEGV $$;; esac; sleep 0.05`, "killed by signal 11"},
	} {
		out, complaint, status := try(t, "compare", both, "--", script(t, test.script))
		if status != 1 || !strings.Contains(complaint, "it failed on every allocator except glibc") {
			t.Errorf("%s: status %d, %s", name, status, complaint)
		}
		if !strings.Contains(out, "seemalloc failed in round 1 and is excluded: "+test.reason) || !strings.Contains(out, "\nwall time ") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	// An exit status that is usual on glibc is accepted on the others.
	if out := tool(t, "compare", both, "--rounds", "1", "--", script(t, "exit 3")); !strings.Contains(out, "On glibc the program ends with exit 3") {
		t.Errorf("%s", out)
	}
}

func TestCompareProgramWithoutPreload(t *testing.T) {
	static := churn(t, "-static")
	_, complaint, status := try(t, "compare", both, "--", static)
	if status != 1 || !strings.Contains(complaint, "churn is statically linked") {
		t.Errorf("status %d, %s", status, complaint)
	}
	// Behind a shell it is visible only while it runs, and on a busy machine that may be missed.
	out, behind := "", script(t, static+"; true")
	for range 10 {
		if out, _, status = try(t, "compare", both, "--", behind); status == 1 {
			break
		}
	}
	if status != 1 || !strings.Contains(out, library+" was not in the program's memory") {
		t.Errorf("status %d\n%s", status, out)
	}
	// Nor does a library of another machine type.
	foreign := filepath.Join(t.TempDir(), "foreign.so")
	if err := build("cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-Wl,--no-as-needed", "-o", foreign); err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	const machine = 18 // offset of e_machine
	data[machine], data[machine+1] = 0xf3, 0
	if err := os.WriteFile(foreign, data, 0o755); err != nil {
		t.Fatal(err)
	}
	out = tool(t, "compare", "--alloc", "glibc,foreign="+foreign, "--rounds", "1", "--", "true")
	if !strings.Contains(out, "foreign: "+foreign+" does not load: ") {
		t.Errorf("%s", out)
	}
}

// A program that is linked with an allocator has it in place of glibc's.
func TestCompareProgramWithOwnAllocator(t *testing.T) {
	program := churn(t, "-Wl,--no-as-needed", library, "-Wl,-rpath,"+filepath.Dir(library))
	out := tool(t, "compare", "--alloc", "glibc", "--rounds", "1", "--", program)
	if !strings.Contains(out, "glibc: the program itself is linked with libseemalloc.so") {
		t.Errorf("%s", out)
	}
}

func TestCompareServer(t *testing.T) {
	program := churn(t)
	var c comparison
	for seconds := 5; seconds < 500 && !c.all("peak_rss", 32<<20); seconds *= 3 { // on a busy machine it fills its memory later
		c = comparison{}
		parse(t, tool(t, "compare", both, "--json", "--rounds", "1", "--for", strconv.Itoa(seconds)+"s", "--", program, "serve"), &c)
	}
	for _, name := range []string{"glibc", "seemalloc"} {
		if peak := c.median(t, "peak_rss", name); peak < 32<<20 {
			t.Errorf("%s: peak %g", name, peak)
		}
	}
	// The load begins once the server listens, 0.1 s after it has filled its memory.
	parse(t, tool(t, "compare", both, "--json", "--rounds", "1", "--load", "sleep 0.2", "--", program, "serve"), &c)
	for _, run := range c.Runs {
		_, wall := run.Values["wall_s"]
		if load := run.Values["load_s"]; load < 0.2 || wall || run.Values["peak_rss"] < 32<<20 || run.Values["cpu_s"] <= 0 {
			t.Errorf("%+v", run)
		}
	}
	_, complaint, status := try(t, "compare", both, "--load", "exit 4", "--", program, "serve")
	if status != 1 || !strings.Contains(complaint, "it failed on every allocator") {
		t.Errorf("status %d, %s", status, complaint)
	}
}

func TestCompareInterrupted(t *testing.T) {
	program := churn(t)
	stamp := filepath.Join(t.TempDir(), "pid")
	// The warm-up, the first round, and a round that never ends.
	wait := script(t, `echo $$ >>`+stamp+`; [ $(wc -l <`+stamp+`) -le 3 ] || exec `+program+` sleep; sleep 0.1`)
	command := exec.Command(binary, "compare", both, "--", wait)
	command.Env = environment()
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []string
	for deadline := time.Now().Add(10 * time.Minute); len(pids) < 4 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(stamp)
		pids = strings.Fields(string(text))
	}
	_ = command.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(complaint.String(), "seemalloc: interrupted after 2 runs of 10\n") {
		t.Errorf("%v, %s", err, &complaint)
	}
	if !strings.Contains(out.String(), "Interrupted: these are the runs until then.") || !strings.Contains(out.String(), "\nwall time ") {
		t.Errorf("%s", &out)
	}
	if len(pids) != 4 {
		t.Fatalf("%q", pids)
	}
	if pid, _ := strconv.Atoi(pids[3]); syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Errorf("pid %d still runs", pid)
	}
}
