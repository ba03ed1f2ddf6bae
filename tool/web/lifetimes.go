package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// lifetimes holds the lifetimes of blocks: in total, and by allocating stack.
type lifetimes struct {
	Time    int64    `json:"t"`       // ms since 1970
	Classes []string `json:"classes"` // age classes, the youngest first
	// Short is the number of classes of temporary blocks, which the program freed within 10 ms.
	Short   int           `json:"short"`
	Freed   []int64       `json:"freed"` // blocks by age class
	Bytes   []int64       `json:"bytes"`
	Alive   int64         `json:"alive"`
	Rows    []lifetimeRow `json:"rows"`
	More    int           `json:"more"` // rows left out
	Comment []string      `json:"says"`
	// Modules lists the modules of all stacks, selected or not.
	Modules []string `json:"modules"`
	// Threads lists the threads of all rows, selected or not. It is nil for an older library, which does not report
	// them.
	Threads []string `json:"threads,omitempty"`
	// Deaths tells for how many freed blocks the freeing stack is known. It is nil if the process has no profile of
	// deaths, and while threads are selected, because its rows have no threads.
	Deaths *knownDeaths `json:"deaths,omitempty"`
}

type knownDeaths struct {
	Known int64 `json:"known"`
	All   int64 `json:"all"`
}

type lifetimeRow struct {
	Stack     []string `json:"stack"` // functions, innermost first
	Inner     int      `json:"inner"` // number of innermost functions that belong to a standard library
	Alive     int64    `json:"alive"`
	Freed     int64    `json:"freed"`
	FreedB    int64    `json:"freed_bytes"`
	Elsewhere int64    `json:"elsewhere"` // freed by a thread other than the allocating one
	Least     int64    `json:"least_ns"`
	Mean      float64  `json:"mean_ns"`
	Most      int64    `json:"most_ns"`
	Ages      []int64  `json:"ages"` // freed blocks by age class
	// ShortBlocks is the number of blocks in the short classes. The profile churn is taken a moment later, so its
	// number could exceed that of all freed blocks.
	ShortBlocks int64 `json:"short_objects"`
	// By is the function that freed most of them, from the profile deaths, without intermediate functions. "": unknown.
	By       string `json:"by,omitempty"`
	ByBlocks int64  `json:"by_objects,omitempty"`
}

const (
	maxLifetimeRows = 500
	shortClasses    = 5 // of report.AgeClasses
)

// lifetimes takes a profile of lifetimes and one of deaths, for the selected stacks and sizes.
func (s *Server) lifetimes(q url.Values) (any, error) {
	stacks, rows, err := newFilters(q)
	if err != nil {
		return nil, err
	}
	lived, err := s.plainProfile("lifetime")
	if err != nil {
		return nil, err
	}
	if rows.thread != nil && !report.HasThreads(lived) {
		return nil, badRequest("thread=%s: this profile of lifetimes has no threads; it was taken by an older library", rows.thread)
	}
	chosen := func(p *profile.Profile) *profile.Profile { return stacks.ofModule(rows.apply(p)) }
	answer := newLifetimes(chosen(lived), stacks)
	answer.Modules, answer.Threads, answer.Time = modulesOf(lived), report.ThreadNames(lived), lived.TimeNanos/int64(time.Millisecond)
	if rows.thread != nil {
		return answer, nil
	}
	deaths, err := s.plainProfile("deaths")
	if isMissing(err) {
		return answer, nil
	}
	if err == nil {
		answer.addDeaths(chosen(deaths), stacks)
	}
	return answer, err
}

// plainProfile takes a profile and removes the allocator's own frames.
func (s *Server) plainProfile(kind string) (*profile.Profile, error) {
	p, err := s.profileOfKind(kind)
	if err != nil {
		return nil, err
	}
	return withoutAllocatorFrames(p)
}

func newLifetimes(lived *profile.Profile, filter stackFilter) *lifetimes {
	answer := &lifetimes{Classes: report.AgeClasses, Short: shortClasses, Comment: slices.Clone(lived.Comments), Rows: []lifetimeRow{}}
	answer.Freed, answer.Bytes = make([]int64, len(report.AgeClasses)), make([]int64, len(report.AgeClasses))
	for _, row := range report.LifetimesByStack(lived) {
		if !filter.passes(strings.Split(row.Name, "\n")) {
			continue
		}
		out := lifetimeRow{Alive: row.Alive, Freed: row.Freed, FreedB: row.FreedB, Elsewhere: row.FreedByOther, Least: row.Min, Mean: row.Mean, Most: row.Max}
		for i, class := range report.AgeClasses {
			out.Ages = append(out.Ages, row.Ages[class])
			if i < shortClasses {
				out.ShortBlocks += row.Ages[class]
			}
			answer.Freed[i] += row.Ages[class]
			answer.Bytes[i] += row.AgeBytes[class]
		}
		answer.Alive += row.Alive
		for _, frame := range row.Stack {
			out.Stack = append(out.Stack, frame.Name)
		}
		out.Inner = owner.Inner(row.Stack)
		if len(answer.Rows) == maxLifetimeRows {
			answer.More++
			continue
		}
		answer.Rows = append(answer.Rows, out)
	}
	return answer
}

// addDeaths adds to each stack the function that freed most of its blocks. A row of deaths consists of the allocating
// stack, the joint, and the freeing stack inside it.
func (l *lifetimes) addDeaths(p *profile.Profile, filter stackFilter) {
	l.Deaths = &knownDeaths{}
	index := report.Column(p, "freed_objects")
	if index < 0 {
		return
	}
	freed := map[string]map[string]int64{} // allocating stack → freeing function → blocks
	for _, sample := range p.Sample {
		frames := report.Frames(sample)
		freedBy := slices.IndexFunc(frames, func(f report.Frame) bool { return f.Name == symbolize.FreedByFrame })
		if freedBy < 0 || !filter.passes(strings.Split(report.StackName(frames[freedBy+1:]), "\n")) {
			continue
		}
		l.Deaths.All += sample.Value[index]
		if freedBy == 0 {
			continue
		}
		l.Deaths.Known += sample.Value[index]
		made := report.StackName(frames[freedBy+1:])
		if freed[made] == nil {
			freed[made] = map[string]int64{}
		}
		freed[made][freeingStack(frames[:freedBy])] += sample.Value[index]
	}
	for i := range l.Rows {
		row := &l.Rows[i]
		for name, blocks := range freed[strings.Join(row.Stack, "\n")] {
			if blocks > row.ByBlocks || blocks == row.ByBlocks && name < row.By {
				row.By, row.ByBlocks = name, blocks
			}
		}
	}
}

// freeingStack returns the innermost function of the program itself in a freeing stack.
func freeingStack(stack []report.Frame) string {
	return stack[owner.Inner(stack)].Name
}
