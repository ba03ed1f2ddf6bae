package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binary is the tool, built once for all tests of this package.
var binary string

// cacheHome is the tool's XDG_CACHE_HOME, so that the tests neither read nor modify the user's cache.
var cacheHome string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "seemalloc-tool-test")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "bin", "seemalloc")
		cacheHome = filepath.Join(dir, "cache")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// result is the outcome of one run of the tool.
type result struct {
	out, err string
	status   int
}

// tool runs the tool without the caller's seemalloc variables, plus env.
func tool(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return toolIn(t, "", env, args...)
}

func toolIn(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SEEMALLOC_") && !strings.HasPrefix(variable, "LD_PRELOAD=") {
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(append(command.Env, "XDG_CACHE_HOME="+cacheHome), env...)
	var out, errors_ bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors_
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errors_.String(), command.ProcessState.ExitCode()}
}

// expectFailure checks the rules for failures: the status, an empty standard output, and one line on standard error
// that starts with the tool's name and contains all of the texts.
func (r result) expectFailure(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d", r.status, status)
	}
	if r.out != "" {
		t.Errorf("on standard output: %q", r.out)
	}
	if !strings.HasPrefix(r.err, "seemalloc: ") || strings.Count(r.err, "\n") != 1 || !strings.HasSuffix(r.err, "\n") {
		t.Errorf("standard error is not one line of ours: %q", r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.err, text) {
			t.Errorf("%q is not in %q", text, r.err)
		}
	}
}

// expectSuccess checks that the tool succeeded and printed nothing except its result.
func (r result) expectSuccess(t *testing.T) string {
	t.Helper()
	if r.status != 0 || r.err != "" {
		t.Fatalf("status %d, standard error %q", r.status, r.err)
	}
	return r.out
}
