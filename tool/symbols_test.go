package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// raw saves an unsymbolized profile of the shop.
func (s *shop) raw(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raw.pb")
	if err := os.WriteFile(path, s.profileBytes(t), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The symbols come from the program, then from the cache. Missing files are reported on standard error.
func TestTopWithoutTheProgram(t *testing.T) {
	shop := buildShop(t)
	if out, err := exec.Command("objcopy", "--preserve-dates", "--remove-section=.note.gnu.build-id", shop.path).CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	raw := shop.raw(t)
	cache := []string{"XDG_CACHE_HOME=" + t.TempDir()}
	for range 2 {
		if got := tool(t, cache, "top", raw); got.status != 0 || got.err != "" || !strings.Contains(got.out, "shop::till") {
			t.Errorf("%+v", got)
		}
	}
	if err := os.Remove(shop.path); err != nil {
		t.Fatal(err)
	}
	got := tool(t, cache, "top", raw)
	want := "seemalloc: note: " + shop.path + ": no such file; functions in it are shown as shop+0x… (--debug-dir DIR names a folder with it or its debug information)\n"
	if got.status != 0 || got.err != want || !strings.Contains(got.out, "shop+0x") {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestTopPerfMap(t *testing.T) {
	shop := buildShop(t)
	p := shop.profile(t)
	for _, loc := range p.Location {
		loc.Mapping = nil
	}
	raw := filepath.Join(t.TempDir(), "raw.pb.gz")
	file, err := os.Create(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(file); err != nil {
		t.Fatal(err)
	}
	file.Close()
	names := filepath.Join(t.TempDir(), "perf-1.map")
	if err := os.WriteFile(names, []byte("0 7fffffffffff JS:*everything /app/x.js:3:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := tool(t, nil, "top", raw, "--perf-map", names).expectSuccess(t); !strings.Contains(out, "everything") {
		t.Errorf("got %s", out)
	}
}

// An unreachable server costs one line.
func TestTopWithoutDebuginfod(t *testing.T) {
	shop := buildShop(t)
	if out, err := exec.Command("strip", "--preserve-dates", shop.path).CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	got := tool(t, []string{"DEBUGINFOD_URLS=" + server.URL, "XDG_CACHE_HOME=" + t.TempDir()}, "top", shop.raw(t))
	want := "seemalloc: note: " + server.URL + ": connection refused; its symbols are missing\n"
	if got.status != 0 || got.err != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}
