package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// A report is the page in one file, with the answers of the server in it. It opens without a server and sends no
// requests.

// maxReportRows limits the rows (stacks with their values) over all moments of a report. A row takes some 20 bytes.
const maxReportRows = 400_000

// reportData is the data that web/src/model/reportanswers.ts reads.
type reportData struct {
	Answers map[string]any    `json:"answers"` // by request: "stats", "suspects?last=60"
	Missing map[string]string `json:"missing"` // requests without an answer, and the reason
	// Profiles share their frames and stacks, because most of them occur in every moment.
	Frames   []Frame                   `json:"frames"`
	Stacks   [][]int32                 `json:"stacks"`
	Profiles map[string]*reportProfile `json:"profiles"` // "heap 7": by kind and moment; the other kinds are taken once and belong to moment 0
}

type reportProfile struct {
	Types    []SampleType `json:"types"`
	Default  int          `json:"default"`
	Period   int64        `json:"period"`
	Time     int64        `json:"t"`
	Comments []string     `json:"comments"`
	Errors   []stdError   `json:"errors"`
	Rows     [][]int64    `json:"rows"` // the index of the stack, followed by its values
	// For profiles with threads in their rows: the names, and for each row the index of its thread, or -1 if it has none.
	Threads    []string `json:"threads,omitempty"`
	RowThreads []int    `json:"row_threads,omitempty"`
}

// Report writes the page with all available data. It queries the process, and runs doctor, which takes two snapshots.
func (s *Server) Report(w io.Writer) error {
	moments := s.history.Moments()
	if len(moments) == 0 && len(s.history.Since(0)) == 0 {
		return problem{http.StatusServiceUnavailable, errors.New("there is no data for a report yet")}
	}
	builder := &reportBuilder{frames: map[Frame]int32{}, stacks: map[string]int64{},
		data: reportData{Answers: map[string]any{}, Missing: map[string]string{}, Frames: []Frame{}, Stacks: [][]int32{}, Profiles: map[string]*reportProfile{}}}
	data := &builder.data
	kept, rows := []Moment{}, 0
	for i, m := range spread(moments) {
		p, err := m.Profile()
		if err != nil {
			return err
		}
		added, err := builder.add(profileKey("heap", m.ID), p)
		if err != nil {
			return err
		}
		// The first one is the last moment, which is included regardless of its size.
		if rows += added; i > 0 && rows > maxReportRows {
			delete(data.Profiles, profileKey("heap", m.ID))
			break
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b Moment) int { return a.ID - b.ID })
	data.Answers["moments"] = kept
	data.Answers["state"] = state{Title: s.options.Title, Process: s.isProcess(), PID: s.pid(), Kinds: s.otherKinds(builder), Report: time.Now().UnixMilli()}
	for name, q := range map[string]url.Values{
		"series": nil, "suspects?last=0": {"last": {"0"}}, "suspects?last=600": {"last": {"600"}}, "suspects?last=60": {"last": {"60"}},
		"stats": nil, "requests": nil, "settings": nil, "doctor": nil, "lifetimes": nil, "map": nil,
	} {
		path, _, _ := strings.Cut(name, "?")
		answer, err := s.handlers[path](q)
		if err != nil {
			data.Missing[path] = err.Error()
			continue
		}
		data.Answers[name] = answer
	}
	if info, err := s.info(); err == nil && info != nil {
		public := *info
		public.Command = "" // it may contain secrets, and a report is for others
		data.Answers["process"] = &public
	} else if err == nil {
		data.Answers["process"] = nil
	} else {
		data.Missing["process"] = err.Error()
	}
	// A report contains the names of source files but not their content.
	data.Missing["source"] = "a report has no source code and no disassembly; `seemalloc web` shows both where the program and its source are"
	return writeReport(w, data)
}

func profileKey(kind string, id int) string { return kind + " " + strconv.Itoa(id) }

// isProcess reports whether the page shows a process, running or ended, and not files.
func (s *Server) isProcess() bool { return s.process != nil || s.history.disk != nil }

func (s *Server) pid() int {
	if s.process == nil {
		return s.options.PID
	}
	return s.process.PID
}

// otherKinds takes a profile of each other kind that the process supports, and returns the kinds in the report.
func (s *Server) otherKinds(builder *reportBuilder) []Kind {
	var kinds []Kind
	for _, kind := range s.options.Kinds {
		if kind.Name != "heap" {
			p, err := s.profileOfKind(kind.Name)
			if err != nil || len(p.Sample) == 0 {
				continue
			}
			if _, err := builder.add(profileKey(kind.Name, 0), p); err != nil {
				continue
			}
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// spread orders moments so that any prefix of the result is spread over the whole time: the last one, the first one,
// the requested ones, and then repeated bisection.
func spread(moments []Moment) []Moment {
	var out []Moment
	taken := make([]bool, len(moments))
	take := func(i int) {
		if !taken[i] {
			taken[i] = true
			out = append(out, moments[i])
		}
	}
	if len(moments) == 0 {
		return nil
	}
	take(len(moments) - 1)
	take(0)
	for i, m := range moments {
		if m.Pinned {
			take(i)
		}
	}
	for step := len(moments); step > 1; step = (step + 1) / 2 {
		for i := 0; i < len(moments); i += (step + 1) / 2 {
			take(i)
		}
	}
	for i := range moments {
		take(i)
	}
	return out
}

type reportBuilder struct {
	data   reportData
	frames map[Frame]int32
	stacks map[string]int64
}

// maxReportThreads: with more threads, a report cannot be filtered by thread, because each thread has its own row of a
// shared stack.
const maxReportThreads = 100

// add adds a profile and returns the number of its rows.
func (b *reportBuilder) add(key string, p *profile.Profile) (int, error) {
	s, err := NewStacks(p, nil)
	if err != nil {
		return 0, err
	}
	out := &reportProfile{Types: s.Types, Default: s.Default, Period: s.Period, Time: s.Time, Comments: s.Comments, Errors: s.Errors, Rows: [][]int64{}}
	b.data.Profiles[key] = out
	names := report.ThreadNames(p)
	if len(names) == 0 || len(names) > maxReportThreads {
		b.addRows(out, s)
		return len(out.Rows), nil
	}
	out.Threads = names
	// Rows without a thread belong to the total but to no thread.
	byThread := map[int]*profile.Profile{}
	for _, sample := range p.Sample {
		thread := -1
		if of := sample.Label[report.ThreadLabel]; len(of) > 0 {
			thread = slices.Index(names, of[0]) // exactly one thread, because each row counts once
		}
		if byThread[thread] == nil {
			byThread[thread] = withoutSamples(p)
		}
		byThread[thread].Sample = append(byThread[thread].Sample, sample)
	}
	for _, thread := range slices.Sorted(maps.Keys(byThread)) {
		if s, err = NewStacks(byThread[thread], nil); err != nil {
			return 0, err
		}
		for range b.addRows(out, s) {
			out.RowThreads = append(out.RowThreads, thread)
		}
	}
	return len(out.Rows), nil
}

// addRows adds the stacks and returns their number.
func (b *reportBuilder) addRows(out *reportProfile, s *Stacks) int {
	frames := make([]int32, len(s.Frames))
	for i, frame := range s.Frames {
		index, known := b.frames[frame]
		if !known {
			index = int32(len(b.data.Frames))
			b.frames[frame] = index
			b.data.Frames = append(b.data.Frames, frame)
		}
		frames[i] = index
	}
	for i, stack := range s.Stacks {
		for j, frame := range stack {
			stack[j] = frames[frame]
		}
		key := fmt.Sprint(stack)
		index, known := b.stacks[key]
		if !known {
			index = int64(len(b.data.Stacks))
			b.stacks[key] = index
			b.data.Stacks = append(b.data.Stacks, stack)
		}
		out.Rows = append(out.Rows, append([]int64{index}, s.Values[i]...))
	}
	return len(s.Stacks)
}

// writeReport inserts script, style and data into the page. A content security policy in the page forbids all requests.
func writeReport(w io.Writer, data *reportData) error {
	// json escapes <, > and &, so that no name can end the script element that contains it.
	inlined, err := json.Marshal(data)
	if err != nil {
		return err
	}
	page, err := dist.ReadFile("dist/index.html")
	if err != nil {
		return err
	}
	script, err := dist.ReadFile("dist/page.js")
	if err != nil {
		return err
	}
	style, err := dist.ReadFile("dist/page.css")
	if err != nil {
		return err
	}
	hash := sha256.Sum256(script)
	policy := fmt.Sprintf(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-%s'; style-src 'unsafe-inline'; img-src data: blob:">`,
		base64.StdEncoding.EncodeToString(hash[:]))
	for _, change := range []struct {
		old string
		new [][]byte
	}{
		{`<meta charset="utf-8">`, [][]byte{[]byte(`<meta charset="utf-8">` + "\n    " + policy)}},
		{`<link rel="stylesheet" href="page.css">`, [][]byte{[]byte("<style>"), style, []byte("</style>")}},
		{`<script src="page.js"></script>`, [][]byte{[]byte(`<script type="application/json" id="report">`), inlined, []byte("</script>\n    <script>"), script, []byte("</script>")}},
	} {
		before, after, found := bytes.Cut(page, []byte(change.old))
		if !found {
			return fmt.Errorf("the page has no %s", change.old)
		}
		page = bytes.Join([][]byte{before, bytes.Join(change.new, nil), after}, nil)
	}
	_, err = w.Write(page)
	return err
}

// report answers with a file for download.
func (s *Server) report(w http.ResponseWriter, _ *http.Request) {
	var body bytes.Buffer
	if err := s.Report(&body); err != nil {
		reply(w, func() (any, error) { return nil, err })
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="seemalloc.report.html"`)
	_, _ = w.Write(body.Bytes())
}
