package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// heapIn returns a heap profile with one function in each file.
func heapIn(files ...string) *profile.Profile {
	p := heapOf(time.Unix(1e9, 0), map[string]int64{"f": 4096})
	for i, file := range files {
		function := &profile.Function{ID: uint64(100 + i), Name: fmt.Sprintf("function%d", i), Filename: file}
		location := &profile.Location{ID: uint64(100 + i), Address: uint64(0x9000 + i), Line: []profile.Line{{Function: function, Line: 2}}}
		p.Function, p.Location = append(p.Function, function), append(p.Location, location)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{location}, Value: slices.Clone(p.Sample[0].Value)})
	}
	return p
}

// requestSource opens the page of a profile and requests the source file.
func requestSource(t *testing.T, options Options, p *profile.Profile, file string) (source, int, string) {
	t.Helper()
	h := &History{}
	h.AddProfile(p)
	server, err := NewServer(options, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	get(t, base+"api/profile?at=1", nil)
	var answer source
	address := base + "api/source?file=" + url.QueryEscape(file)
	status, body := get(t, address, nil)
	if status == http.StatusOK {
		get(t, address, &answer)
	}
	return answer, status, body
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSourceThatFunctionsNameIsRead(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "a.cc"), "one\ntwo\n\n")
	answer, status, body := requestSource(t, Options{}, heapIn(file), file)
	if status != http.StatusOK || !slices.Equal(answer.Lines, []string{"one", "two", ""}) || answer.Path != file || answer.Modified == 0 {
		t.Errorf("%d %s", status, body)
	}
}

func TestNoOtherFileIsRead(t *testing.T) {
	folder := t.TempDir()
	file := write(t, filepath.Join(folder, "src/a.cc"), "text\n")
	secret := write(t, filepath.Join(folder, "secret"), "KEY\n")
	for _, other := range []string{secret, filepath.Join(folder, "src/../secret"), file + "/../../secret", "../secret", "/etc/passwd", folder, filepath.Dir(file) + "/./a.cc", " " + file, file + "\x00", strings.ToUpper(file)} {
		if _, status, body := requestSource(t, Options{SourcePath: folder}, heapIn(file), other); status != http.StatusForbidden || strings.Contains(body, "KEY") {
			t.Errorf("%q: %d %s", other, status, body)
		}
	}
	h := &History{}
	h.AddProfile(heapIn(file))
	server, _ := NewServer(Options{}, h, nil, nil)
	if status, _ := get(t, listen(t, server)+"api/source?file="+url.QueryEscape(file), nil); status != http.StatusForbidden {
		t.Errorf("source of a profile that was never shown: %d", status)
	}
	if _, status, body := requestSource(t, Options{}, heapIn(file), ""); status != http.StatusBadRequest {
		t.Errorf("no name: %d %s", status, body)
	}
}

func TestOtherFilesAreNotReadAsSource(t *testing.T) {
	folder := t.TempDir()
	fifo := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	long := write(t, filepath.Join(folder, "long"), "")
	if err := os.Truncate(long, maxSourceBytes+1); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(folder, "missing.cc")
	for file, want := range map[string]string{fifo: "is not a file", folder: "is not a file", "/dev/zero": "is not a file", long: "too long", missing: "--source-path", long + "/x": "--source-path"} {
		if _, status, body := requestSource(t, Options{}, heapIn(file), file); status != http.StatusNotFound || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", file, status, body)
		}
	}
}

// The page finds the source wherever `seemalloc list` finds it.
func TestSourceIsFoundWhereListFindsIt(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "shop/src/a.cc"), "first\nMARK\nthird\n")
	write(t, filepath.Join(folder, "top.h"), "first\nMARK\nthird\n")
	for _, c := range []struct {
		file, path, trim string
		found            bool
	}{
		{filepath.Join(folder, "shop/src/a.cc"), "", "", true},
		{"/build/shop/src/a.cc", "", "", false},
		{"/build/shop/src/a.cc", folder + "/shop", "", true},
		{"/build/shop/src/a.cc", folder + "/nowhere:" + folder + "/shop", "", true},
		{"/build/x/src/a.cc", folder + "/shop", "", false},
		{"/build/x/src/a.cc", folder + "/shop", "/build/x", true},
		{"/build/x/src/a.cc", folder + "/shop", "/other:/build/x/", true},
		{"/build/shop/src/a.cc", folder + "/shop", "/elsewhere", false},
		{"src/a.cc", folder + "/shop", "", true},
		{"top.h", folder + "/shop/src", "", true},
		{"/proc/self/cwd/src/a.cc", folder + "/shop", "", true},
		{"src/b.cc", folder + "/shop", "", false},
	} {
		p := heapIn(c.file)
		answer, status, _ := requestSource(t, Options{SourcePath: c.path, TrimPath: c.trim}, p, c.file)
		list, err := report.Pprof(p.Copy(), len(p.SampleType)-1, "list", "function0", map[string]string{"source_path": c.path, "trim_path": c.trim})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(list, "MARK") != c.found {
			t.Errorf("%+v: the test is wrong: list says\n%s", c, list)
		}
		if found := status == http.StatusOK && answer.Lines[1] == "MARK"; found != c.found {
			t.Errorf("%+v: %d", c, status)
		}
	}
}
