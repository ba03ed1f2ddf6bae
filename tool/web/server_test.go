package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach/fake"
	"seemalloc/tool/report"
)

// serve starts a page with two saved profiles, one minute apart.
func serve(t *testing.T) (base string, server *Server) {
	t.Helper()
	h := &History{}
	h.AddProfile(heapOf(time.Unix(1e9, 0), map[string]int64{"gone": 500, "stays": 1000}))
	h.AddProfile(heapOf(time.Unix(1e9+60, 0), map[string]int64{"stays": 4000, "new": 300}))
	server, err := NewServer(Options{Title: "two files"}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, server), server
}

func listen(t *testing.T, server *Server) string {
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	return listener.URL + server.Path()
}

func fetch(t *testing.T, request *http.Request, into any) (status int, body string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
	}
	return response.StatusCode, string(data)
}

func get(t *testing.T, url string, into any) (int, string) {
	t.Helper()
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch(t, request, into)
}

func TestTokenIsRequired(t *testing.T) {
	base, server := serve(t)
	if status, body := get(t, base, nil); status != http.StatusOK || !strings.Contains(body, "page.js") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, strings.TrimSuffix(base, "/"), nil); status != http.StatusOK || !strings.Contains(body, "page.js") {
		t.Errorf("without a slash behind the token: %d %s", status, body)
	}
	root := strings.TrimSuffix(base, server.Path())
	for _, path := range []string{"/", "/api/state", "/" + strings.Repeat("0", 32) + "/api/state"} {
		if status, _ := get(t, root+path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, body := get(t, root+"/favicon.ico", nil); status != http.StatusNoContent || body != "" {
		t.Errorf("a picture for a text's tab: %d %s", status, body)
	}
	for header, value := range map[string]string{"Host": "evil.example:80", "Origin": "http://evil.example"} {
		request, _ := http.NewRequest("GET", base+"api/state", nil)
		request.Header.Set(header, value)
		if header == "Host" { // DNS rebinding: the name resolves to this machine but is not ours
			request.Host = value
		}
		if status, _ := fetch(t, request, nil); status != http.StatusForbidden {
			t.Errorf("%s %s: %d", header, value, status)
		}
	}
	// A request that a form on another site can send without a preflight.
	request, _ := http.NewRequest("POST", base+"api/purge", strings.NewReader("{}"))
	request.Header.Set("Content-Type", "text/plain")
	if status, _ := fetch(t, request, nil); status != http.StatusUnsupportedMediaType {
		t.Errorf("a form's POST: %d", status)
	}
}

func TestStacksAddUpAsTopDoes(t *testing.T) {
	base, server := serve(t)
	var stacks Stacks
	get(t, base+"api/profile?at=2&base=1", &stacks)
	m, _ := server.history.Moment(2)
	index, _ := report.SampleIndex(m.profile, "inuse", "bytes")
	sum, before := int64(0), int64(0)
	for i := range stacks.Stacks {
		sum += stacks.Values[i][index]
		before += stacks.Base[i][index]
	}
	if want := report.Total(m.profile, index); sum != want || before != 1500 {
		t.Errorf("%d instead of %d; before %d", sum, want, before)
	}
	found := map[string][2]int64{}
	for i, stack := range stacks.Stacks {
		if stacks.Frames[stack[0]].Name != "main" {
			t.Errorf("stack %d begins with %s", i, stacks.Frames[stack[0]].Name)
		}
		found[stacks.Frames[stack[len(stack)-1]].Name] = [2]int64{stacks.Base[i][index], stacks.Values[i][index]}
	}
	want := map[string][2]int64{"gone": {500, 0}, "stays": {1000, 4000}, "new": {0, 300}}
	for name, values := range want {
		if found[name] != values {
			t.Errorf("%s: %v instead of %v", name, found[name], values)
		}
	}
	if stacks.Types[stacks.Default].Name != "inuse_space" || stacks.Types[0].Unit != "objects" {
		t.Errorf("types %+v, default %d", stacks.Types, stacks.Default)
	}
}

// The page expects lists, so none of them is null.
func TestStacksWithoutFramesAreLists(t *testing.T) {
	bare := heapOf(time.Unix(1e9, 0), nil)
	for _, p := range []*profile.Profile{bare, heapOf(time.Unix(1e9, 0), map[string]int64{"malloc": 100})} {
		for _, sample := range p.Sample {
			sample.Location = nil
		}
		stacks, err := NewStacks(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(stacks); bytes.Contains(text, []byte(`"frames":null`)) || bytes.Contains(text, []byte("[null")) || bytes.Contains(text, []byte(`s":null,"v`)) {
			t.Errorf("%s", text)
		}
	}
}

// A row without a stack has the same name as in `seemalloc top`, and a location without a function is handled the same
// way.
func TestStacksHaveTheFunctionsOfTop(t *testing.T) {
	p := heapOf(time.Unix(1e9, 0), map[string]int64{"a": 100, "b": 200, "c": 300})
	p.Sample[0].Location = nil
	p.Sample[1].Location[0].Line[0].Function = nil
	p.Sample[2].Location[0].Line = nil
	stacks, err := NewStacks(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int{}, map[string]int{}
	for _, stack := range stacks.Stacks {
		names := ""
		for _, frame := range stack {
			names = stacks.Frames[frame].Name + ";" + names
		}
		got[names]++
	}
	for _, sample := range p.Sample {
		names := ""
		for _, frame := range report.Frames(sample) {
			names += frame.Name + ";"
		}
		want[names]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || want["(no stack);"] != 1 {
		t.Errorf("%v instead of %v", got, want)
	}
}

// An unknown error is not 0.
func TestAnUnknownErrorIsNull(t *testing.T) {
	p := heapOf(time.Unix(1e9, 0), map[string]int64{"f": 100})
	p.SampleType[0].Type, p.SampleType[1].Type = "peak_count", "inuse_space"
	stacks, err := NewStacks(p, p)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(stacks); err != nil || !strings.Contains(string(text), `"errors":[null,`) || !strings.Contains(string(text), `"base_errors":[null,`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Its id is 0 in another namespace. Files do not belong to a process.
func TestProcessInPlaceOfFile(t *testing.T) {
	base, _, server := process(t, false)
	server.process.PID = 0
	files, _ := serve(t)
	for url, want := range map[string]bool{base: true, files: false} {
		var s map[string]any
		if get(t, url+"api/state", &s); s["process"] != want {
			t.Errorf("%v instead of %v", s["process"], want)
		}
	}
}

// Pages that request a profile at the same time, or soon after, get the same one, at the cost of one for the process.
func TestPagesShareProfilesOfAKind(t *testing.T) {
	base, socket, _ := process(t, false)
	heap, taken := socket.Answers["profile"], atomic.Int64{}
	const took = maxInterval / momentShare // the next one is taken a minute later
	socket.Answers["profile"] = func(args []string) string {
		if args[0] != "heap" {
			taken.Add(1)
			time.Sleep(took)
		}
		return heap([]string{"heap"})
	}
	answers := make(chan string)
	for range 5 {
		go func() {
			for range 4 {
				_, body := get(t, base+"api/profile?kind=churn", nil)
				answers <- body
			}
		}()
	}
	for range 5 * 4 {
		if body := <-answers; !strings.Contains(body, "holder") {
			t.Error(body)
		}
	}
	if n := taken.Load(); n != 1 {
		t.Errorf("%d profiles were taken", n)
	}
	if get(t, base+"api/profile?kind=allocs", nil); taken.Load() != 2 {
		t.Error("another kind was not taken")
	}
}

// However fast the user clicks, expensive queries of the process are limited. That includes pprof's pages, reports and
// moments.
func TestConcurrentRequestsShareOneProfile(t *testing.T) {
	var heap bytes.Buffer
	_ = heapOf(time.Now(), map[string]int64{"holder": 1 << 20}).WriteUncompressed(&heap)
	taken := map[string]*atomic.Int64{"heap": {}, "churn": {}}
	socket := fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	socket.Answers["profile"] = func(args []string) string {
		if taken[args[0]] == nil {
			return "error unknown kind " + args[0]
		}
		taken[args[0]].Add(1)
		time.Sleep(maxInterval / momentShare) // the next one is taken a minute later
		return heap.String()
	}
	base, server := unwatched(t, socket)
	server.options.Kinds = []Kind{{Name: "heap"}, {Name: "churn"}}
	server.history.AddProfile(heapOf(time.Now(), map[string]int64{"holder": 1 << 20}))
	moments := map[string]bool{}
	for range 3 {
		for _, path := range []string{"pprof/churn/top", "api/report", "api/profile?kind=churn"} {
			if status, body := get(t, base+path, nil); status != http.StatusOK || !strings.Contains(body, "holder") {
				t.Fatalf("%s: %d %.300s", path, status, body)
			}
		}
		status, body := send(t, base+"api/moments", "{}")
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		moments[body] = true
	}
	if churns, heaps := taken["churn"].Load(), taken["heap"].Load(); churns != 1 || heaps != 1 || len(moments) != 1 {
		t.Errorf("the process has made %d churn and %d heap profiles; moments: %v", churns, heaps, moments)
	}
	if server.pprofs.taken != 1 {
		t.Errorf("pprof has %d pages of the same profile", server.pprofs.taken)
	}
}

// After a failure the next request is not delayed.
func TestRateLimitedRetriesAfterFailure(t *testing.T) {
	var p rateLimited[int]
	asked := 0
	take := func() (int, time.Duration, error) {
		if asked++; asked == 1 {
			return 0, time.Minute, errors.New("no")
		}
		return asked, time.Minute, nil
	}
	if _, err := p.get(take); err == nil {
		t.Error("the failure is not told")
	}
	for range 2 {
		if got, err := p.get(take); got != 2 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	}
}

// The page expects arrays.
func TestNothingIsAnEmptyArray(t *testing.T) {
	h := &History{}
	h.AddProfile(heapOf(time.Unix(1e9, 0), nil))
	h.AddProfile(heapOf(time.Unix(1e9+60, 0), nil))
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for _, path := range []string{"series?since=0", "profile?at=0", "profile?at=2&base=1", "suspects", "state"} {
		if status, body := get(t, base+"api/"+path, nil); status != http.StatusOK || strings.Contains(body, "null") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	var stacks Stacks
	if get(t, base+"api/profile?at=2&base=1", &stacks); stacks.Base == nil {
		t.Error("the answer does not show that it is a change")
	}
	if _, body := get(t, base+"api/profile?at=2", nil); strings.Contains(body, "base") {
		t.Errorf("a change from nothing: %s", body)
	}
}

// A selected moment is requested again and again while new ones are added.
func TestPinnedMomentIsKept(t *testing.T) {
	base, server := serve(t)
	chosen := Moment{}
	for i := range 20 * maxMoments {
		if i == 10 {
			chosen = server.history.Moments()[7]
		}
		if i >= 10 && i%20 == 10 {
			if status, body := get(t, base+"api/profile?at=0&base="+strconv.Itoa(chosen.ID), nil); status != http.StatusOK {
				t.Fatalf("after %d: %d %s", i, status, body)
			}
		}
		addToHistory(server.history, heapOf(time.Unix(2e9+int64(i), 0), map[string]int64{"f": 1}), false)
	}
}

// Files of other kinds or from other tools have other sample types, in a different order.
func TestProfilesAreComparedByType(t *testing.T) {
	now, before := heapOf(time.Unix(1e9+60, 0), map[string]int64{"f": 7000}), heapOf(time.Unix(1e9, 0), map[string]int64{"f": 3000})
	before.SampleType = []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}, {Type: "alloc_space", Unit: "bytes"}}
	before.Sample[0].Value = []int64{3000, 99}
	stacks, err := NewStacks(now, before)
	if err != nil {
		t.Fatal(err)
	}
	if len(stacks.Types) != 1 || stacks.Types[0].Name != "inuse_space" || stacks.Default != 0 || len(stacks.Errors) != 1 {
		t.Errorf("types %+v, default %d, errors %v", stacks.Types, stacks.Default, stacks.Errors)
	}
	if len(stacks.Values) != 1 || !slices.Equal(stacks.Values[0], []int64{7000}) || !slices.Equal(stacks.Base[0], []int64{3000}) {
		t.Errorf("%v instead of 7000, %v instead of 3000", stacks.Values, stacks.Base)
	}
	before.SampleType[0].Unit = "pages"
	if _, err := NewStacks(now, before); err == nil || !strings.Contains(err.Error(), "one is of inuse_objects in count, inuse_space in bytes, the other of inuse_space in pages") {
		t.Errorf("nothing in common: %v", err)
	}
}

func TestBadRequestsGetAClearError(t *testing.T) {
	base, _ := serve(t)
	for path, want := range map[string]string{
		"api/profile?at=99":             "404 at=99: no such profile",
		"api/profile?at=x":              `400 at="x": expected a number`,
		"api/profile?kind=cpu":          "400 saved profiles are shown",
		"api/stats":                     "400 saved profiles are shown",
		"api/doctor":                    "400 saved profiles are shown",
		"api/download?at=1&format=gif":  `400 format="gif": expected one of proto, heap`,
		"api/download?at=9&format=json": "404 at=9",
		"api/nothing":                   "404",
	} {
		status, body := get(t, base+path, nil)
		if got := http.StatusText(status); !strings.HasPrefix(want, strings.TrimSpace(itoa(status))) || !strings.Contains(body, strings.TrimSpace(strings.TrimPrefix(want, itoa(status)))) {
			t.Errorf("%s: %d (%s) %s instead of %s", path, status, got, body, want)
		}
	}
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestDownloadsAreTheSameProfile(t *testing.T) {
	base, server := serve(t)
	status, body := get(t, base+"api/download?at=1&format=proto", nil)
	p, err := profile.Parse(bytes.NewReader([]byte(body)))
	if status != http.StatusOK || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	m, _ := server.history.Moment(1)
	if report.Total(p, 1) != report.Total(m.profile, 1) {
		t.Error("the totals differ")
	}
	if status, body := get(t, base+"api/download?at=1&format=collapsed", nil); status != http.StatusOK || !strings.Contains(body, "main;stays 1000") {
		t.Errorf("%d %s", status, body)
	}
}
