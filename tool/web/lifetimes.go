package web

import (
	"net/url"
	"slices"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// lifetimes is how long blocks lived: in all, and by the stacks that allocated them.
type lifetimes struct {
	Classes []string `json:"classes"` // of age, the youngest first
	// Short is how many of them are those of temporary blocks: the program freed them within 10 ms.
	Short int           `json:"short"`
	Freed []int64       `json:"freed"` // blocks by class of age
	Bytes []int64       `json:"bytes"`
	Alive int64         `json:"alive"`
	Rows  []lifetimeRow `json:"rows"`
	More  int           `json:"more"` // rows left out
	Says  []string      `json:"says"`
}

type lifetimeRow struct {
	Stack     []string `json:"stack"` // functions, innermost first
	Alive     int64    `json:"alive"`
	Freed     int64    `json:"freed"`
	FreedB    int64    `json:"freed_bytes"`
	Elsewhere int64    `json:"elsewhere"` // freed by another thread than the one that allocated it
	Least     int64    `json:"least_ns"`
	Mean      float64  `json:"mean_ns"`
	Most      int64    `json:"most_ns"`
	Ages      []int64  `json:"ages"` // freed blocks by class
	// Of the profile churn, which also counts what no lifetime is known of.
	ShortBlocks int64 `json:"short_objects"`
	ShortBytes  int64 `json:"short_bytes"`
	Moved       int64 `json:"moved_objects"` // copies that realloc made
}

const (
	mostLifetimeRows = 500
	shortClasses     = 5 // of report.AgeClasses
)

// lifetimes takes a profile of lifetimes and one of churn.
func (s *Server) lifetimes(url.Values) (any, error) {
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	lived, err := s.plainProfile("lifetime")
	if err != nil {
		return nil, err
	}
	churn, err := s.plainProfile("churn")
	if err != nil {
		return nil, err
	}
	return newLifetimes(lived, churn), nil
}

// plainProfile takes a profile and takes the allocator's own frames off.
func (s *Server) plainProfile(kind string) (*profile.Profile, error) {
	p, err := s.taken(kind)
	if err != nil {
		return nil, err
	}
	p = p.Copy() // others may look at it
	return p, p.RemoveUninteresting()
}

func newLifetimes(lived, churn *profile.Profile) *lifetimes {
	answer := &lifetimes{Classes: report.AgeClasses, Short: shortClasses, Says: slices.Clone(lived.Comments), Rows: []lifetimeRow{}}
	answer.Freed, answer.Bytes = make([]int64, len(report.AgeClasses)), make([]int64, len(report.AgeClasses))
	short := churnByStack(churn)
	for _, row := range report.LifetimesByStack(lived) {
		out := lifetimeRow{Alive: row.Alive, Freed: row.Freed, FreedB: row.FreedB, Elsewhere: row.Elsewhere, Least: row.Least, Mean: row.Mean, Most: row.Most}
		for i, class := range report.AgeClasses {
			out.Ages = append(out.Ages, row.Ages[class])
			answer.Freed[i] += row.Ages[class]
			answer.Bytes[i] += row.AgeBytes[class]
		}
		answer.Alive += row.Alive
		for _, frame := range row.Stack {
			out.Stack = append(out.Stack, frame.Name)
		}
		c := short[row.Name]
		out.ShortBlocks, out.ShortBytes, out.Moved = c.blocks, c.bytes, c.moved
		if len(answer.Rows) == mostLifetimeRows {
			answer.More++
			continue
		}
		answer.Rows = append(answer.Rows, out)
	}
	return answer
}

type churned struct{ blocks, bytes, moved int64 }

func churnByStack(p *profile.Profile) map[string]churned {
	index := map[string]int{}
	for i, t := range p.SampleType {
		index[t.Type] = i
	}
	value := func(sample *profile.Sample, name string) int64 {
		if i, ok := index[name]; ok {
			return sample.Value[i]
		}
		return 0
	}
	sums := map[string]churned{}
	for _, sample := range p.Sample {
		name := report.StackName(report.Frames(sample))
		c := sums[name]
		c.blocks += value(sample, "short_objects")
		c.bytes += value(sample, "short_space")
		c.moved += value(sample, "moved_objects")
		sums[name] = c
	}
	return sums
}
