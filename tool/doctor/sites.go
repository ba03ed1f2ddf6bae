package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// Site is a location in the program, found from the stacks of samples.
type Site struct {
	Place string   `json:"place"` // the owner of the memory (tool/owner)
	Stack []string `json:"stack"` // the largest of its stacks, innermost first
	Bytes float64  `json:"bytes"` // estimated; per second if the finding is a rate
	Share float64  `json:"share"` // of all sites
	Size  int64    `json:"block_bytes,omitempty"`
	// Error is the standard error of Bytes, if it is known.
	Error float64  `json:"standard_error,omitempty"`
	Notes []string `json:"notes,omitempty"`

	most float64 // of the stack that is shown
}

// sample is a row of a profile.
type sample = profile.Sample

// weightFunc returns the weight of a sample. Rows with weight 0 are not sites.
type weightFunc func(*sample) float64

// value returns a function that reads the named value of a sample, or 0 if the profile has no such value.
func value(p *profile.Profile, name string) func(*sample) int64 {
	at := report.Column(p, name)
	return func(s *sample) int64 {
		if at < 0 || at >= len(s.Value) {
			return 0
		}
		return s.Value[at]
	}
}

// increase weighs a row by the growth of a value since before, per second.
func increase(before, after *profile.Profile, name string, seconds float64) weightFunc {
	had := map[string]int64{}
	old, now := value(before, name), value(after, name)
	for _, s := range before.Sample {
		had[report.RowKey(before, s)] += old(s)
	}
	grown := map[*sample]float64{}
	for _, s := range after.Sample {
		key := report.RowKey(after, s)
		known := min(had[key], now(s))
		had[key] -= known
		if delta := now(s) - known; delta > 0 && seconds > 0 {
			grown[s] = float64(delta) / seconds
		}
	}
	return func(s *sample) float64 { return grown[s] }
}

// topSites sums the rows by location, the largest first.
func topSites(snapshot *Snapshot, p *profile.Profile, by weightFunc) []Site {
	found := map[string]*Site{}
	total := eachSite(snapshot, p, by, func(place string, stack []string, size int64, weight float64) {
		site := found[place]
		if site == nil {
			site = &Site{Place: place}
			found[place] = site
		}
		if weight > site.most {
			site.most, site.Stack, site.Size = weight, stack, size
		}
		site.Bytes += weight
	})
	return largest(found, total)
}

// eachSite symbolizes the rows with a weight and calls f for each of them with its location, the size of its blocks
// and its weight. It returns the sum of the weights.
func eachSite(snapshot *Snapshot, p *profile.Profile, by weightFunc, f func(place string, stack []string, size int64, weight float64)) float64 {
	if p == nil {
		return 0
	}
	named, total := weighed(p, by)
	if total == 0 {
		return 0
	}
	if snapshot.Name != nil {
		snapshot.Name(named)
	}
	_ = named.RemoveUninteresting()
	owner.Charge(named, owner.FindWrappers(named))
	for _, s := range named.Sample {
		stack := places(s, snapshot.Hide)
		f(stack[0], stack, report.Label(s, "bytes"), float64(s.Value[0]))
	}
	return total
}

// weighed returns a profile of the rows with a weight, which is their only value. It is a copy because symbolizing
// takes time and modifies the profile.
func weighed(p *profile.Profile, by weightFunc) (named *profile.Profile, total float64) {
	less := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "weight", Unit: "bytes"}}, PeriodType: p.PeriodType, Period: p.Period,
		Mapping: p.Mapping, Location: p.Location, Function: p.Function, DropFrames: p.DropFrames, KeepFrames: p.KeepFrames,
	}
	for _, s := range p.Sample {
		weight := int64(by(s))
		if weight <= 0 {
			continue
		}
		row := *s
		row.Value = []int64{weight}
		less.Sample = append(less.Sample, &row)
		total += float64(weight)
	}
	return less.Compact(), total
}

func largest(found map[string]*Site, total float64) []Site {
	var list []Site
	for _, site := range found {
		site.Share = site.Bytes / total
		if site.Share >= siteShare {
			list = append(list, *site)
		}
	}
	slices.SortFunc(list, func(a, b Site) int {
		if a.Bytes != b.Bytes {
			if a.Bytes > b.Bytes {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Place, b.Place)
	})
	return list[:min(len(list), maxSites)]
}

// places lists a row's functions, innermost first, without the hidden ones.
func places(s *sample, hide *regexp.Regexp) []string {
	var list []string
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			switch {
			case line.Function == nil || hide != nil && hide.MatchString(line.Function.Name):
			case line.Function.Filename == "" || line.Line == 0:
				list = append(list, line.Function.Name)
			default:
				list = append(list, fmt.Sprintf("%s %s:%d", line.Function.Name, filepath.Base(line.Function.Filename), line.Line))
			}
		}
		if len(loc.Line) == 0 {
			list = append(list, fmt.Sprintf("%#x", loc.Address))
		}
	}
	if len(list) == 0 {
		return []string{"(no stack)"}
	}
	return list
}
