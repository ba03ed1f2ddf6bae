package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var leaksScript = absolute("testdata/python_leaks.py")

// extensionFolder builds the extension module of python_leaks.py.
func extensionFolder(t *testing.T, python string) string {
	t.Helper()
	out, err := exec.Command(python, "-c", "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('EXT_SUFFIX'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	include, suffix, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if _, err := os.Stat(filepath.Join(include, "Python.h")); err != nil {
		t.Skip("no Python.h (Debian: python3-dev)")
	}
	folder := t.TempDir()
	if err := build("cc", "-O2", "-g", "-shared", "-fPIC", "-I"+include, "testdata/leaky_extension.c", "-o", filepath.Join(folder, "leaky"+suffix)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Each command names the function in Python and its line first, whichever native code has allocated.
func TestPythonLeaks(t *testing.T) {
	eachPython(t, func(t *testing.T, python string) {
		for _, of := range []struct {
			way, function string
		}{
			{"dict", "Sessions.remember"},
			{"extension", "parse"},
			{"numpy", "collect"},
		} {
			t.Run(of.way, func(t *testing.T) {
				t.Parallel()
				args := []string{binary, "run", "--sample", "8K", "--conf", "at_start:1", "--", python, leaksScript, of.way}
				switch of.way {
				case "extension":
					args = append(args, extensionFolder(t, python))
				case "numpy":
					if exec.Command(python, "-c", "import numpy").Run() != nil {
						t.Skip("no NumPy (Debian: python3-numpy)")
					}
				}
				p := launch(t, []string{"PYTHONMALLOC=malloc"}, args...)
				waitFor(t, socketOf(p.pid))
				expectPythonLine(t, p.pid, of.function, lineOf(t, leaksScript, "# line: "+of.way))
			})
		}
	})
}

// expectPythonLine checks growth, doctor, top and list. On a busy machine the first look may be too short.
func expectPythonLine(t *testing.T, pid, function string, line int64) {
	t.Helper()
	place := fmt.Sprintf("%s %s:%d", function, filepath.Base(leaksScript), line)
	soon(t, "growth names "+place, func() bool {
		g := growthOf(t, pid, "10s")
		return len(g.Growing) > 0 && g.Growing[0].Name == function && g.Growing[0].File == leaksScript && int64(g.Growing[0].Line) == line
	})
	soon(t, "doctor names "+place, func() bool {
		out, complaint, _ := try(t, "doctor", pid, "--for", "10s")
		return complaint == "" && strings.Contains(out, place)
	})
	report, _, _ := top(t, pid)
	if len(report.Functions) == 0 || report.Functions[0].Name != function || report.Functions[0].Line != line {
		t.Errorf("top: %+v", report.Functions[:min(3, len(report.Functions))])
	}
	if out := tool(t, "top", pid, "-n", "1"); !strings.Contains(out, "  "+place+"\n") {
		t.Errorf("no %s in\n%s", place, out)
	}
	if out := tool(t, "list", pid, "^"+function+"$"); !strings.Contains(out, fmt.Sprintf("%d:", line)) {
		t.Errorf("no line %d in\n%s", line, out)
	}
}

// Python's small objects are not in a profile unless malloc allocates them, which the reports say.
func TestPythonSmallObjects(t *testing.T) {
	python := pythons(t)[0]
	const said = "Missing: Python's objects of 512 bytes and less (start it with PYTHONMALLOC=malloc)"
	for _, env := range [][]string{nil, {"PYTHONMALLOC=malloc"}} {
		p := launch(t, env, binary, "run", "--sample", "1K", "--conf", "at_start:1", "--", python, framesScript, "hold")
		waitFor(t, socketOf(p.pid))
		for _, command := range [][]string{{"top", p.pid}, {"growth", p.pid, "--for", "1s"}} {
			out, _, _ := try(t, command...)
			if strings.Contains(out, said) != (env == nil) {
				t.Errorf("%v with %q:\n%s", command, env, out)
			}
		}
	}
}
