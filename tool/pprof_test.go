package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seemalloc/tool/attach/fake"
)

// topJSON is the part of `seemalloc top --json` that the tests read.
type topJSON struct {
	Source    string
	Type      string
	Total     int64
	Error     float64 `json:"standard_error"`
	Exact     *int64  `json:"exact_live"`
	Functions []struct {
		Name      string
		Flat, Cum int64
	}
}

func parseTop(t *testing.T, text string) topJSON {
	t.Helper()
	var top topJSON
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return top
}

// pprofs are the readers that must accept a saved profile: the reference pprof and Go's.
var pprofs = map[string][]string{
	"reference pprof": {"go", "tool", "github.com/google/pprof"},
	"go tool pprof":   {"go", "tool", "pprof"},
}

// pprofTop runs `pprof -top` and returns "flat cum name" for each function, and its standard error.
func pprofTop(t *testing.T, command []string, index, file string) (rows []string, complaint string) {
	t.Helper()
	args := append(append([]string(nil), command[1:]...), "-top", "-nodecount=0", "-nodefraction=0", "-sample_index="+index)
	if strings.HasSuffix(index, "_space") {
		args = append(args, "-unit=bytes")
	}
	args = append(args, file)
	c := exec.Command(command[0], args...)
	c.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errors.String())
	}
	row := regexp.MustCompile(`^\s*(-?[0-9]+)B?\s+\S+%?\s+\S+%\s+(-?[0-9]+)B?\s+\S+%?\s+(.*?)( \(inline\))?$`)
	for _, line := range lines(out.String()) {
		if m := row.FindStringSubmatch(line); m != nil {
			rows = append(rows, fmt.Sprintf("%s %s %s", m[1], m[2], m[3]))
		}
	}
	return rows, errors.String()
}

// Both pprofs read the output of `seemalloc profile` without warnings, and all three programs show the same numbers for
// every function and every value.
func TestPprofAgrees(t *testing.T) {
	shop := buildShop(t)
	server := fake.Start(t, filepath.Join(t.TempDir(), "socket"))
	profile := shop.profileBytes(t)
	server.Answers["profile"] = func([]string) string { return string(profile) }
	dir := t.TempDir()
	for _, raw := range []bool{false, true} {
		file := filepath.Join(dir, fmt.Sprintf("raw-%v.pb.gz", raw))
		args := []string{"profile", "--socket", server.Path, "-o", file}
		if raw {
			args = append(args, "--raw")
		}
		if got := tool(t, nil, args...).expectSuccess(t); got != file+"\n" {
			t.Errorf("printed %q", got)
		}
		for index, flags := range map[string][]string{
			"inuse_space": nil, "inuse_objects": {"--unit", "objects"},
			"alloc_space": {"--by", "alloc"}, "alloc_objects": {"--by=alloc", "--unit=objects"},
		} {
			ours := parseTop(t, tool(t, nil, append([]string{"top", file, "--json", "-n", "0"}, flags...)...).expectSuccess(t))
			want := map[string]bool{}
			sum := int64(0)
			for _, f := range ours.Functions {
				want[fmt.Sprintf("%d %d %s", f.Flat, f.Cum, f.Name)] = true
				sum += f.Flat
			}
			if sum != ours.Total || ours.Type != index || len(want) < 4 {
				t.Errorf("%s: total %d, sum %d, type %s, %d functions", index, ours.Total, sum, ours.Type, len(want))
			}
			for name, command := range pprofs {
				rows, complaint := pprofTop(t, command, index, file)
				total := int64(0)
				for _, row := range rows {
					var flat int64
					fmt.Sscan(row, &flat)
					total += flat
				}
				if total != ours.Total {
					t.Errorf("%s, raw %v, %s: total %d, seemalloc top says %d", name, raw, index, total, ours.Total)
				}
				if raw {
					continue // each pprof then symbolizes in its own way and prints a warning if it cannot
				}
				if complaint != "" {
					t.Errorf("%s complains: %s", name, complaint)
				}
				for _, row := range rows {
					if !want[row] {
						t.Errorf("%s, %s: %q, but seemalloc top says %v", name, index, row, want)
					}
				}
				if len(rows) != len(want) {
					t.Errorf("%s, %s: %d functions, seemalloc top has %d", name, index, len(rows), len(want))
				}
			}
		}
	}
}

// A file is readable without the program, because it was symbolized when it was saved.
func TestSavedProfileWithoutFiles(t *testing.T) {
	shop := buildShop(t)
	server := fake.Start(t, filepath.Join(t.TempDir(), "socket"))
	profile := shop.profileBytes(t)
	server.Answers["profile"] = func([]string) string { return string(profile) }
	file := filepath.Join(t.TempDir(), "heap.pb.gz")
	tool(t, nil, "profile", "--socket", server.Path, "-o", file).expectSuccess(t)
	if err := os.Remove(shop.path); err != nil {
		t.Fatal(err)
	}
	if out := tool(t, nil, "top", file).expectSuccess(t); !strings.Contains(out, "shop::till") {
		t.Errorf("got %s", out)
	}
}
