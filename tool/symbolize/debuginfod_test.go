package symbolize

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stripped is a running program without debug information, and the file that holds the debug information.
type stripped struct {
	*program
	id, debugFile string
}

func compileStripped(t *testing.T) stripped {
	t.Helper()
	objcopy, strip := tool(t, "objcopy"), tool(t, "strip")
	path := compile(t)
	s := stripped{id: idOf(t, path), debugFile: filepath.Join(t.TempDir(), "marks.debug")}
	run(t, objcopy, "--only-keep-debug", path, s.debugFile)
	run(t, strip, "--strip-all", path)
	s.program = start(t, path)
	return s
}

// server is a debuginfod that answers with handle and counts its requests.
func server(t *testing.T, handle http.HandlerFunc) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	t.Setenv("DEBUGINFOD_URLS", s.URL)
	t.Setenv("DEBUGINFOD_TIMEOUT", "")
	t.Setenv("DEBUGINFOD_MAXTIME", "")
	t.Setenv("DEBUGINFOD_MAXSIZE", "")
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	return s.URL, requests
}

// forget clears the cache of symbols, so that files have to be found again. It keeps the cache of files.
func forget(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "seemalloc", "names")); err != nil {
		t.Fatal(err)
	}
}

func TestDebuginfod(t *testing.T) {
	s := compileStripped(t)
	_, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/buildid/"+s.id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, s.debugFile)
	})
	for round, name := range []string{"downloaded", "from the cache of files", "from the cache of names", "without a server"} {
		switch round {
		case 1:
			forget(t)
		case 3:
			forget(t)
			t.Setenv("DEBUGINFOD_URLS", "")
		}
		p := s.profile(t, s.id)
		for _, m := range p.Mapping {
			if m.File != s.path {
				m.File = "" // the libraries do not matter here
			}
		}
		if result := Profile(p, Files{}); result.Debug != len(s.marks) || len(result.Notes) != 0 {
			t.Errorf("%s: %+v", name, result)
		}
		expectFull(t, func(mark string) string { return stack(p, mark) })
		if n := requests.Load(); n != 1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// The cache of elfutils' client, which gdb fills.
func TestDebuginfodClientCache(t *testing.T) {
	s := compileStripped(t)
	folder := t.TempDir()
	t.Setenv("DEBUGINFOD_CACHE_PATH", folder)
	t.Setenv("DEBUGINFOD_URLS", "")
	if err := os.Mkdir(filepath.Join(folder, s.id), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.debugFile, filepath.Join(folder, s.id, "debuginfo")); err != nil {
		t.Fatal(err)
	}
	p := s.profile(t, s.id)
	Profile(p, Files{})
	expectFull(t, func(mark string) string { return stack(p, mark) })
}

// A file that a server does not have is requested once in ten minutes.
func TestDebuginfodNotFound(t *testing.T) {
	emptyCache(t)
	_, requests := server(t, http.NotFound)
	for range 3 {
		d := NewDebuginfod(nil)
		if o := d.find("0123456789abcdef", "marks"); o != nil || len(d.Notes()) != 0 {
			t.Error("found, or complained")
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	absent := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "seemalloc", "debug", "0123456789abcdef"+absentSuffix)
	then := time.Now().Add(-absentFor - time.Minute)
	if err := os.Chtimes(absent, then, then); err != nil {
		t.Fatal(err)
	}
	if NewDebuginfod(nil).find("0123456789abcdef", "marks"); requests.Load() != 2 {
		t.Error("it is never asked again")
	}
}

// Every failure gives a one-line note, soon, and the server is not contacted again.
func TestDebuginfodFails(t *testing.T) {
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		set    map[string]string
		want   string
		again  int32 // requests for three files
	}{
		"answers nothing": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			map[string]string{"DEBUGINFOD_TIMEOUT": "1"}, "no answer within 1s", 1},
		// Enough time for the first byte.
		"trickles":        {trickle, map[string]string{"DEBUGINFOD_TIMEOUT": "5"}, "less than 100 KiB within 5s", 1},
		"comes to no end": {flood, map[string]string{"DEBUGINFOD_MAXTIME": "1"}, "no end after 1s", 1},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			fmt.Fprint(w, "half")
		}, nil, "broke off", 1},
		"fails":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusServiceUnavailable) }, nil, "answers 503 Service Unavailable", 1},
		"sends nonsense": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "nonsense") }, nil, "it sent a different file", 3},
		"tells too much": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.Write(make([]byte, 5000))
		}, map[string]string{"DEBUGINFOD_MAXSIZE": "4000"}, "more than the 4000 that DEBUGINFOD_MAXSIZE allows", 3},
		"sends too much":  {flood, map[string]string{"DEBUGINFOD_MAXSIZE": "400000"}, "more than the 400000 bytes", 3},
		"redirects round": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, nil, "stopped after 10 redirects", 10},
	} {
		t.Run(name, func(t *testing.T) {
			emptyCache(t)
			address, requests := server(t, test.handle)
			for key, value := range test.set {
				t.Setenv(key, value)
			}
			began := time.Now()
			d := NewDebuginfod(nil)
			for i := range 3 {
				if o := d.find(fmt.Sprintf("0123456789abcde%d", i), "marks"); o != nil {
					t.Error("found something")
				}
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("took %v", took)
			}
			notes := d.Notes()
			if len(notes) == 0 || test.again == 1 && len(notes) != 1 || !strings.HasPrefix(notes[0], address+": ") ||
				!strings.Contains(notes[0], test.want) || strings.Contains(notes[0], "\n") {
				t.Errorf("got %q, want %q", notes, test.want)
			}
			if n := requests.Load(); n != test.again {
				t.Errorf("%d requests", n)
			}
			entries, _ := os.ReadDir(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "seemalloc", "debug"))
			if len(entries) != 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// trickle sends a byte now and then, forever.
func trickle(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte{0}); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
	}
}

// flood sends data forever, at a rate that the test's disk can bear.
func flood(w http.ResponseWriter, r *http.Request) {
	block := make([]byte, 200<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestDebuginfodOffline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close() // nothing listens there now
	for urls, want := range map[string]string{
		address:                      address + ": connection refused; its symbols are missing",
		"http://seemalloc.invalid:1": "http://seemalloc.invalid:1: its name cannot be resolved; its symbols are missing",
	} {
		emptyCache(t)
		t.Setenv("DEBUGINFOD_URLS", urls)
		for _, proxy := range []string{"http_proxy", "HTTP_PROXY"} {
			t.Setenv(proxy, "")
		}
		d := NewDebuginfod(nil)
		d.find("0123456789abcdef", "marks")
		d.find("0123456789abcdee", "marks")
		if notes := d.Notes(); len(notes) != 1 || notes[0] != want {
			t.Errorf("got %q, want %q", notes, want)
		}
	}
}

// The first server that has the file is sufficient, and a failing server does not stop the others.
func TestDebuginfodServers(t *testing.T) {
	s := compileStripped(t)
	good, requests := server(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, s.debugFile) })
	bad, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", 500) })
	t.Setenv("DEBUGINFOD_URLS", " ima:enforcing "+bad+"/ "+good)
	var said []string
	d := NewDebuginfod(func(line string) { said = append(said, line) })
	o := d.find(s.id, "marks")
	if o == nil || requests.Load() != 1 {
		t.Fatalf("found %v with %d requests: %v", o, requests.Load(), d.Notes())
	}
	o.close()
	if notes := d.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], bad+": answers 500") {
		t.Errorf("notes %q", notes)
	}
	if len(said) != 0 {
		t.Errorf("announced a small file: %q", said)
	}
}

func TestDebuginfodVariables(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "")
	if NewDebuginfod(nil) != nil {
		t.Error("asks without being told whom")
	}
	t.Setenv("DEBUGINFOD_URLS", "ftp://x debuginfod.example /srv")
	t.Setenv("DEBUGINFOD_TIMEOUT", "soon")
	d := NewDebuginfod(nil)
	notes := strings.Join(d.Notes(), "\n")
	for _, want := range []string{`"ftp://x" is not a server`, `"debuginfod.example" is not`, `"/srv" is not`, `DEBUGINFOD_TIMEOUT="soon": expected a number of seconds; 10 is used`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s is missing in %s", want, notes)
		}
	}
	if d.find("0123456789abcdef", "marks") != nil || len(d.Notes()) != 0 {
		t.Error("without a server: found something or complained")
	}
}

// Invalid ids are not requested: they come from a profile and would become part of a URL and a path.
func TestDebuginfodIDs(t *testing.T) {
	emptyCache(t)
	_, requests := server(t, http.NotFound)
	d := NewDebuginfod(nil)
	for _, id := range []string{"", "abc", "../../../etc/passwd", "0123456789abcdeg", strings.Repeat("ab", 65)} {
		d.find(id, "marks")
	}
	if requests.Load() != 0 {
		t.Error("asked")
	}
}

func TestDebuginfodAtOnce(t *testing.T) {
	s := compileStripped(t)
	server(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, s.debugFile) })
	d := NewDebuginfod(nil)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if o := d.find(s.id, "marks"); o == nil {
				t.Error("not found")
			} else {
				o.close()
			}
		})
	}
	group.Wait()
}
