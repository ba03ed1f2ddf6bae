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

// A report is the page in one file, with what the server would have answered: it opens without a server, and asks nobody.

// mostReportRows bounds a report: rows of stacks with their values, over all its moments. A row takes some 20 bytes.
const mostReportRows = 400_000

// reportData is what web/src/model/inlined.ts reads.
type reportData struct {
	Answers map[string]any    `json:"answers"` // by what the page asks for: "stats", "suspects?last=60"
	Missing map[string]string `json:"missing"` // what could not be answered, and why
	// Profiles share their frames and stacks: most of them are in every moment.
	Frames   []Frame                   `json:"frames"`
	Stacks   [][]int32                 `json:"stacks"`
	Profiles map[string]*reportProfile `json:"profiles"` // "heap 7": by kind and moment; other kinds, taken once, are of moment 0
}

type reportProfile struct {
	Types    []SampleType `json:"types"`
	Default  int          `json:"default"`
	Period   int64        `json:"period"`
	Time     int64        `json:"t"`
	Comments []string     `json:"comments"`
	Errors   []stdError   `json:"errors"`
	Rows     [][]int64    `json:"rows"` // the stack's index, and its values
	// Of profiles whose rows say their thread: the names, and for each row the index of its one, -1 where it says none.
	Threads    []string `json:"threads,omitempty"`
	RowThreads []int    `json:"row_threads,omitempty"`
}

// Report writes the page with all that can be known now. It asks the process, and looks for doctor twice.
func (s *Server) Report(w io.Writer) error {
	moments := s.history.Moments()
	if len(moments) == 0 && len(s.history.Since(0)) == 0 {
		return problem{http.StatusServiceUnavailable, errors.New("nothing has been seen yet that a report could show")}
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
		// The first that comes is the last moment: it is there whatever its size.
		if rows += added; i > 0 && rows > mostReportRows {
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
		answer, err := s.answers[path](q)
		if err != nil {
			data.Missing[path] = err.Error()
			continue
		}
		data.Answers[name] = answer
	}
	// Names of files are in a report, what is in them is not.
	data.Missing["source"] = "a report has no source code and no disassembly; `seemalloc web` shows both where the program and its source are"
	return writeReport(w, data)
}

func profileKey(kind string, id int) string { return kind + " " + strconv.Itoa(id) }

// isProcess: what is shown is a process, or was one.
func (s *Server) isProcess() bool { return s.process != nil || s.history.disk != nil }

func (s *Server) pid() int {
	if s.process == nil {
		return s.options.PID
	}
	return s.process.PID
}

// otherKinds takes a profile of each other kind that the process has, and says which there are in the report.
func (s *Server) otherKinds(builder *reportBuilder) []Kind {
	var kinds []Kind
	for _, kind := range s.options.Kinds {
		if kind.Name != "heap" {
			p, err := s.taken(kind.Name)
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

// spread orders moments so that any number of the first ones is spread over the time: the last, the first, those that were
// asked for, then halves between them.
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
		if m.Asked {
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

// mostReportThreads: with more, what is in a report cannot be chosen by thread. Each has its own row of a stack that several share.
const mostReportThreads = 100

// add puts a profile in and returns the number of its rows.
func (b *reportBuilder) add(key string, p *profile.Profile) (int, error) {
	s, err := NewStacks(p, nil)
	if err != nil {
		return 0, err
	}
	out := &reportProfile{Types: s.Types, Default: s.Default, Period: s.Period, Time: s.Time, Comments: s.Comments, Errors: s.Errors, Rows: [][]int64{}}
	b.data.Profiles[key] = out
	names := report.ThreadNames(p)
	if len(names) == 0 || len(names) > mostReportThreads {
		b.addRows(out, s)
		return len(out.Rows), nil
	}
	out.Threads = names
	// Those that say no thread are in none of the names, but in the whole.
	byThread := map[int]*profile.Profile{}
	for _, sample := range p.Sample {
		thread := -1
		if of := sample.Label[report.ThreadLabel]; len(of) > 0 {
			thread = slices.Index(names, of[0]) // of one alone: each counts once
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

// addRows puts the stacks in and returns their number.
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

// writeReport puts script, style and data into the page. A policy in it forbids every request.
func writeReport(w io.Writer, data *reportData) error {
	// json escapes <, > and &, so that no name ends the script that it stands in.
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

// report answers with a file to keep.
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
