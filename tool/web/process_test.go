package web

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
	"seemalloc/tool/store"
)

// process serves a page about an imaginary process.
func process(t *testing.T, allowSet bool) (base string, socket *fake.Server, server *Server) {
	t.Helper()
	return processIn(t, allowSet, nil)
}

func processIn(t *testing.T, allowSet bool, s *store.Store) (base string, socket *fake.Server, server *Server) {
	t.Helper()
	socket = fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	server = watched(t, socket, allowSet, s)
	return listen(t, server), socket, server
}

// unwatched serves a page about the process behind the socket. The process gets only the queries of pages.
func unwatched(t *testing.T, socket *fake.Server) (base string, server *Server) {
	t.Helper()
	client, err := attach.DialSocket(socket.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	process := NewProcess(client, "p", 0, func(*profile.Profile) {})
	if server, err = NewServer(Options{Title: "p"}, &History{}, process, &Watcher{process: process, history: &History{}}); err != nil {
		t.Fatal(err)
	}
	return listen(t, server), server
}

func onlyHeap(args []string) string {
	if args[0] != "heap" {
		return "error unknown profile"
	}
	var heap bytes.Buffer
	_ = heapOf(time.Now(), map[string]int64{"holder": 1 << 20}).WriteUncompressed(&heap)
	return heap.String()
}

// watched creates the server of a page about the process behind the socket.
func watched(t *testing.T, socket *fake.Server, allowSet bool, s *store.Store, kinds ...Kind) *Server {
	t.Helper()
	return watchedFor(t, time.Minute, socket, allowSet, s, kinds...)
}

// watchedFor also sets the time-out of answers: on a busy machine some take a second.
func watchedFor(t *testing.T, patience time.Duration, socket *fake.Server, allowSet bool, s *store.Store, kinds ...Kind) *Server {
	t.Helper()
	if socket.Answers["profile"] == nil {
		socket.Answers["profile"] = onlyHeap
	}
	again := attach.SocketRedialer(socket.Path, os.Getpid(), patience)
	client, err := again()
	if err != nil {
		t.Fatal(err)
	}
	h := &History{}
	if s != nil {
		if err := h.StoreIn(s, time.Now().UnixMilli(), "made-up", 4242, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	p := NewProcess(client, "made-up", 4242, func(*profile.Profile) {})
	p.Dial = again
	server, err := NewServer(Options{Title: "made-up", AllowSet: allowSet, Kinds: kinds}, h, p, Watch(p, h, MomentInterval))
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func send(t *testing.T, url, body string) (int, string) {
	t.Helper()
	request, _ := http.NewRequest("POST", url, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return fetch(t, request, nil)
}

func TestReadOnlyUnlessAllowed(t *testing.T) {
	base, socket, _ := process(t, false)
	for _, what := range []string{"settings", "purge"} {
		if status, body := send(t, base+"api/"+what, `{"name":"sample","value":"1M"}`); status != http.StatusForbidden || !strings.Contains(body, "--allow-set") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	base, _, _ = process(t, true)
	if status, body := send(t, base+"api/purge", "{}"); status != http.StatusOK || strings.TrimSpace(body) != `"1048576"` {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := send(t, base+"api/settings", `{"name":"a b","value":"1"}`); status != http.StatusBadRequest {
		t.Errorf("a name with a space: %d", status)
	}
	_ = socket
}

// Profiles of other kinds are taken on request and saved as such. A refusal by the process is not a failure.
func TestOtherKinds(t *testing.T) {
	base, socket, _ := process(t, false)
	answer := socket.Answers["profile"]
	socket.Answers["profile"] = func(args []string) string {
		if args[0] == "nonsense" {
			return "error unknown kind nonsense"
		}
		if args[0] == "churn" {
			var churn bytes.Buffer
			p := heapOf(time.Now(), map[string]int64{"churner": 700})
			p.SampleType[0].Type, p.SampleType[1].Type, p.DefaultSampleType = "short_objects", "short_space", ""
			_ = p.WriteUncompressed(&churn)
			return churn.String()
		}
		return answer(args)
	}
	for path, want := range map[string]string{
		"profile?kind=churn&at=0":                                     `churner`,
		"profile?kind=churn&at=3":                                     `400 kind="churn" is taken on request`,
		"profile?kind=churn&base=1":                                   `400 kind="churn" is taken on request`,
		"profile?kind=nonsense":                                       `process.sock: unknown kind nonsense`,
		"download?kind=churn&format=collapsed&type=short_objects":     "main;churner 7\n",
		"download?kind=churn&format=collapsed":                        "main;churner 700\n",
		"download?kind=churn&format=collapsed&type=inuse_space&at=0":  "400 no inuse_space values",
		"download?kind=heap&at=0&format=collapsed&type=inuse_objects": "main;holder 10485\n",
	} {
		for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // until there is a moment
			status, body := get(t, base+"api/"+path, nil)
			if status == http.StatusNotFound && time.Now().Before(deadline) {
				continue
			}
			if got := fmt.Sprintf("%d %s", status, body); !strings.Contains(got, want) || strings.HasPrefix(got, "502") {
				t.Errorf("%s: %s instead of %s", path, got, want)
			}
			break
		}
	}
}

func TestPointsAndMomentsOfAProcess(t *testing.T) {
	base, _, server := process(t, false)
	deadline := time.Now().Add(10 * time.Minute)
	for len(server.history.Since(0)) == 0 || len(server.history.Moments()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no request arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	var points []Point
	get(t, base+"api/series?since=0", &points)
	p := points[0]
	if p.RSS != p.Live+p.Cached+p.Fragmentation+p.Metadata+p.Foreign || p.RSS == 0 {
		t.Errorf("%+v does not add up", p)
	}
	if status, _ := send(t, base+"api/moments", "{}"); status != http.StatusOK {
		t.Errorf("a moment of now: %d", status)
	}
	var moments []Moment
	get(t, base+"api/moments", &moments)
	if last := moments[len(moments)-1]; !last.Pinned || last.InUse != 1<<20 {
		t.Errorf("%+v", last)
	}
	var settings []setting
	get(t, base+"api/settings", &settings)
	if len(settings) != 3 || settings[0].Name != "sample" || !settings[0].Any || settings[1].Any {
		t.Errorf("%+v", settings)
	}
}

// A stopped process is queried again when it continues. A process that has ended is not queried any more.
func TestTimeoutIsNotTheEnd(t *testing.T) {
	socket := fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	var stopped atomic.Bool
	for _, command := range []string{"stats", "ping"} {
		answer := socket.Answers[command]
		socket.Answers[command] = func(args []string) string {
			for stopped.Load() {
				time.Sleep(time.Millisecond)
			}
			return answer(args)
		}
	}
	defer stopped.Store(false)
	server := watchedFor(t, time.Second, socket, false, nil)
	base := listen(t, server)
	until := func(what string, is func(state) bool) {
		t.Helper()
		var s state
		for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			get(t, base+"api/state", &s)
			if is(s) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("never %s: %+v", what, s)
			}
			s = state{}
		}
	}
	until("looked at", func(state) bool { return len(server.history.Since(0)) > 0 })
	stopped.Store(true)
	until("silent", func(s state) bool { return strings.Contains(s.NotAnswering, "no answer to") && s.Live && s.Ended == "" })
	stopped.Store(false)
	before := len(server.history.Since(0))
	until("looked at again", func(s state) bool { return s.NotAnswering == "" && s.Live && len(server.history.Since(0)) > before })
	_ = os.Remove(socket.Path)
	stopped.Store(true) // the connection is lost
	until("ended", func(s state) bool { return !s.Live && strings.Contains(s.Ended, "has ended") })
}

// A library without a profiler reports that in place of profiles and is not queried again.
func TestNoProfiler(t *testing.T) {
	socket := fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	client, err := attach.SocketRedialer(socket.Path, os.Getpid(), time.Minute)()
	if err != nil {
		t.Fatal(err)
	}
	asked := atomic.Int64{}
	socket.Answers["profile"] = func([]string) string {
		asked.Add(1)
		return "error this is the library without a profiler (minimal)"
	}
	h, p := &History{}, NewProcess(client, "made-up", 4242, func(*profile.Profile) {})
	const between = 10 * time.Millisecond
	server, err := NewServer(Options{}, h, p, Watch(p, h, between))
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for deadline := time.Now().Add(10 * time.Minute); asked.Load() == 0 && time.Now().Before(deadline); time.Sleep(between) {
	}
	time.Sleep(100 * between) // time in which no further query must arrive
	for _, path := range []string{"profile?at=0", "suspects"} {
		if status, body := get(t, base+"api/"+path, nil); status != http.StatusBadRequest || !strings.Contains(body, "without a profiler") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times in a second", n)
	}
	var s state
	if get(t, base+"api/state", &s); !s.Live || s.NotAnswering != "" {
		t.Errorf("%+v", s)
	}
}

// The prepared answer is used repeatedly, also while it is being prepared, and only for its own request.
func TestPreparedAnswerIsTheFirstRequest(t *testing.T) {
	base, server := serve(t)
	const first = "api/profile?kind=heap&at=0"
	_, want := get(t, base+first, nil)
	_, other := get(t, base+first+"&base=1", nil)
	_, old := get(t, base+"api/profile?kind=heap&at=1", nil)
	made := 0
	done := make(chan bool)
	server.Prepare(func() { close(done) })
	<-done
	prepared := server.first
	server.first = func() (any, error) { made++; return prepared() }
	for range 2 {
		if _, got := get(t, base+first, nil); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if made != 2 {
		t.Errorf("what is prepared was taken %d times, want 2", made)
	}
	if _, got := get(t, base+first+"&base=1", nil); got != other {
		t.Errorf("compared: %s, want %s", got, other)
	}
	if _, got := get(t, base+"api/profile?kind=heap&at=1", nil); got != old {
		t.Errorf("the first one: %s, want %s", got, old)
	}
}
