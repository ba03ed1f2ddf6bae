package web

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/report"
)

// away matches references that a page would load from another server.
var away = regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?\s*(https?:)?//[^"'\s>]*|url\(\s*["']?(https?:)?//|@import`)

func TestPprofPagesNeedTheToken(t *testing.T) {
	base, server := serve(t)
	for page, want := range map[string]string{"top": "stays", "peek": "stays", "source?f=stays": "stays", "flamegraph": "stays"} {
		status, body := get(t, base+"pprof/2/"+page, nil)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s", page, status, body)
		}
		if !strings.Contains(body, `href="../../#at=2&amp;view=functions">← seemalloc`) || !strings.Contains(body, "--paper") {
			t.Errorf("%s: no way back, or not our look", page)
		}
		if found := away.FindString(body); found != "" {
			t.Errorf("%s loads %s", page, found)
		}
		if strings.Contains(body, "<script>") {
			t.Errorf("%s: a script without its nonce", page)
		}
	}
	root := strings.TrimSuffix(base, server.Path())
	if status, _ := get(t, root+"/pprof/2/top", nil); status != http.StatusNotFound {
		t.Errorf("without the token: %d", status)
	}
	for header, value := range map[string]string{"Host": "evil.example", "Origin": "http://evil.example"} {
		request, _ := http.NewRequest("GET", base+"pprof/2/top", nil)
		request.Header.Set(header, value)
		if header == "Host" {
			request.Host = value
		}
		if status, _ := fetch(t, request, nil); status != http.StatusForbidden {
			t.Errorf("%s %s: %d", header, value, status)
		}
	}
}

func TestPprofShowsOnlyTheRequestedMoment(t *testing.T) {
	base, _ := serve(t)
	_, first := get(t, base+"pprof/1/top", nil)
	_, second := get(t, base+"pprof/2/top?si=inuse_space", nil)
	if !strings.Contains(first, `"gone"`) || strings.Contains(second, `"gone"`) || !strings.Contains(second, `"new"`) {
		t.Error("moments are mixed up")
	}
	_, change := get(t, base+"pprof/2-1/top?si=inuse_space", nil)
	for _, want := range []string{`"Flat":3000`, `"Flat":-500`, `"Flat":300`} {
		if !strings.Contains(change, want) {
			t.Errorf("the change has no %s", want)
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request(t, base+"pprof/0/?si=inuse_objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if where := response.Header.Get("Location"); response.StatusCode != http.StatusFound || where != "../2/top?si=inuse_objects" {
		t.Errorf("of now: %d %s", response.StatusCode, where)
	}
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPprofChangesNothingOnDisk(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	base, _ := serve(t)
	for _, page := range []string{"saveconfig?config=mine", "deleteconfig?config=mine", "", "../../x", "nonsense"} {
		if status, _ := get(t, base+"pprof/2/"+page, nil); status != http.StatusNotFound && page != "" {
			t.Errorf("%s: %d", page, status)
		}
	}
	if entries, _ := os.ReadDir(home); len(entries) > 0 {
		t.Errorf("pprof has written %s", entries[0].Name())
	}
}

func TestPprofOfMissingMoment(t *testing.T) {
	base, _ := serve(t)
	for name, want := range map[string]string{"77": "no such profile", "1-77": "77: no such", "1x": "expected a moment", "lifetime": "no process to query", "churn.1": "no longer available", "-": "expected a moment"} {
		if status, body := get(t, base+"pprof/"+name+"/top", nil); status < 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if status, body := get(t, base+"pprof/2/graph", nil); status != http.StatusNotImplemented || !strings.Contains(body, "graphviz") {
		t.Errorf("without dot: %d %s", status, body)
	}
}

func TestPprofPagesAreCached(t *testing.T) {
	h := &History{}
	for i := range 10 {
		h.AddProfile(heapOf(time.Unix(1e9+int64(i), 0), map[string]int64{"f": int64(i)}))
	}
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for _, name := range []string{"1", "2", "3", "4", "5", "2", "6"} {
		get(t, base+"pprof/"+name+"/top", nil)
	}
	kept := ""
	for _, one := range server.pprofs.made {
		kept += one.name
	}
	if kept != "4526" {
		t.Errorf("kept %s", kept)
	}
}

// Names in a profile are untrusted text and must not become part of the page's code.
func TestNamesAreEscaped(t *testing.T) {
	h := &History{}
	name := `</script><script>alert(1)</script><img src=x onerror=alert(1)>`
	h.AddProfile(heapOf(time.Unix(1e9, 0), map[string]int64{name: 5}))
	server, err := NewServer(Options{Title: name}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for _, page := range []string{"top", "peek", "flamegraph", "source"} {
		if _, body := get(t, base+"pprof/1/"+page, nil); strings.Contains(body, "<img") || strings.Contains(body, "alert(1)</script>") {
			t.Errorf("%s: the name is a part of the page", page)
		}
	}
}

func TestPagesOfManyAtOnce(t *testing.T) {
	base, server := serve(t)
	done := make(chan string)
	for i := range 8 {
		go func() {
			_, body := get(t, base+"pprof/"+[]string{"1", "2", "2-1", "1-2"}[i%4]+"/top", nil)
			done <- body
		}()
	}
	for range 8 {
		if body := <-done; !strings.Contains(body, "stays") {
			t.Errorf("%.200s", body)
		}
	}
	if m, _ := server.history.Moment(1); report.Total(m.profile, len(m.profile.SampleType)-1) != 1500 {
		t.Error("the moment has been changed")
	}
}
