package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/report"
)

// inlined parses the data in a report.
func inlined(t *testing.T, page string) (data struct {
	Answers  map[string]json.RawMessage
	Missing  map[string]string
	Frames   []Frame
	Stacks   [][]int32
	Profiles map[string]*reportProfile
}) {
	t.Helper()
	found := regexp.MustCompile(`(?s)<script type="application/json" id="report">(.*?)</script>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no data in the report's %d bytes", len(page))
	}
	if err := json.Unmarshal([]byte(found[1]), &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// Names that would end the script or start a comment in it are preserved.
func TestReportEscapesNames(t *testing.T) {
	const evil = `</script><script>alert(1)</script><!--<img src=http://evil.example/x>` + "\u2028"
	h := &History{}
	h.AddProfile(heapOf(time.Unix(1e9, 0), map[string]int64{evil: 500, "stays": 1000}))
	h.AddProfile(heapOf(time.Unix(1e9+60, 0), map[string]int64{evil: 700, "new": 300}))
	server, err := NewServer(Options{Title: evil}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := server.Report(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(strings.ToLower(text), "</script"); n != 2 {
		t.Errorf("%d scripts end in the page, instead of its data and its code", n)
	}
	for _, other := range []string{"page.js", "page.css", "evil.example/x>"} {
		if strings.Contains(text, other) {
			t.Errorf("the page asks for %s", other)
		}
	}
	if !strings.Contains(text, "default-src 'none'") {
		t.Error("requests are not forbidden")
	}
	data := inlined(t, text)
	var title state
	if err := json.Unmarshal(data.Answers["state"], &title); err != nil || title.Title != evil || title.Report == 0 || title.Live {
		t.Errorf("%+v, %v", title, err)
	}
	// Each profile equals its source, stack by stack.
	for _, m := range h.Moments() {
		one := data.Profiles[profileKey("heap", m.ID)]
		index, _ := report.SampleIndex(m.profile, "inuse", "bytes")
		sum, ofEvil := int64(0), int64(0)
		for _, row := range one.Rows {
			stack := data.Stacks[row[0]]
			if data.Frames[stack[0]].Name != "main" {
				t.Errorf("stack %v", stack)
			}
			sum += row[1+index]
			if data.Frames[stack[len(stack)-1]].Name == evil {
				ofEvil += row[1+index]
			}
		}
		if want := map[int]int64{1: 500, 2: 700}[m.ID]; sum != m.InUse || ofEvil != want {
			t.Errorf("moment %d: %d of %d, %d of %d", m.ID, sum, m.InUse, ofEvil, want)
		}
	}
	if data.Missing["stats"] == "" || data.Answers["stats"] != nil {
		t.Error("files have no statistics, and the report does not say so")
	}
}

func TestReportOfProcessHasAllViews(t *testing.T) {
	base, _, server := process(t, false)
	if status, _ := get(t, base+"api/report", nil); status == http.StatusOK && len(server.history.Since(0)) == 0 {
		t.Error("a report of nothing")
	}
	deadline := time.Now().Add(10 * time.Minute)
	for len(server.history.Since(0)) == 0 || len(server.history.Moments()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no request arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	status, page := get(t, base+"api/report", nil)
	if status != http.StatusOK {
		t.Fatal(status, page)
	}
	data := inlined(t, page)
	for _, name := range []string{"state", "series", "moments", "suspects?last=0", "suspects?last=60", "stats", "settings"} {
		if data.Answers[name] == nil {
			t.Errorf("%s: %s", name, data.Missing[name])
		}
	}
	if !strings.Contains(data.Missing["source"], "no disassembly") {
		t.Errorf("what no report has is not said: %v", data.Missing)
	}
	if data.Answers["doctor"] != nil || !strings.Contains(data.Missing["doctor"], "older than this tool") {
		t.Errorf("what the made-up process cannot be asked for: %v", data.Missing)
	}
}

func TestEmptyReportIsAnError(t *testing.T) {
	server, err := NewServer(Options{}, &History{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Report(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "there is no data for a report") {
		t.Error(err)
	}
}

// Samples without a thread, or with two threads, occur once in a report.
func TestReportOfThreadsAddsUp(t *testing.T) {
	p := heapOf(time.Unix(1e9, 0), map[string]int64{"a": 1, "b": 2, "c": 4})
	index, err := report.SampleIndex(p, "inuse", "bytes")
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]int64{}
	for _, sample := range p.Sample {
		switch sample.Value[index] {
		case 1:
			want[-1] += 1
		case 2:
			sample.Label = map[string][]string{"thread": {"worker"}}
			want[1] += 2
		case 4:
			sample.Label = map[string][]string{"thread": {"main", "worker"}}
			want[0] += 4
		}
	}
	builder := &reportBuilder{frames: map[Frame]int32{}, stacks: map[string]int64{}, data: reportData{Profiles: map[string]*reportProfile{}}}
	if rows, err := builder.add("heap 1", p); rows != 3 || err != nil {
		t.Errorf("%d rows, %v", rows, err)
	}
	one := builder.data.Profiles["heap 1"]
	have := map[int]int64{}
	for i, row := range one.Rows {
		have[one.RowThreads[i]] += row[1+index]
	}
	if !maps.Equal(have, want) || !slices.Equal(one.Threads, []string{"main", "worker"}) {
		t.Errorf("%v of %v, expected %v", have, one.Threads, want)
	}
}

// If there are too many rows, the report has moments spread over the whole time, including the last one regardless of
// its size.
func TestReportSizeIsBounded(t *testing.T) {
	var all []Moment
	for i := range 33 {
		all = append(all, Moment{ID: i, Pinned: i == 5})
	}
	var ids []int
	for _, m := range spread(all) {
		ids = append(ids, m.ID)
	}
	if len(ids) != 33 || ids[0] != 32 || ids[1] != 0 || ids[2] != 5 || ids[3] < 14 || ids[3] > 18 {
		t.Errorf("%v", ids)
	}
	seen := map[int]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	if len(seen) != 33 {
		t.Errorf("%v", ids)
	}
	if spread(nil) != nil {
		t.Error("moments out of none")
	}
}
