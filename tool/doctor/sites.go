package doctor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Site is a place in the program, by the stacks of samples.
type Site struct {
	Place string   `json:"place"` // the first function outside of the allocator and of standard libraries
	Stack []string `json:"stack"` // innermost first; of the largest of its stacks
	Bytes float64  `json:"bytes"` // estimated; per second where the finding is a rate
	Share float64  `json:"share"` // of all sites
	Size  int64    `json:"block_bytes,omitempty"`

	most float64 // of the stack that is shown
}

// sample is a row of a profile.
type sample = profile.Sample

// weigh is what a sample of the profile counts; rows that count nothing are no sites.
type weigh func(*sample) float64

// value reads one of a profile's values, 0 where the profile has none of the name.
func value(p *profile.Profile, name string) func(*sample) int64 {
	at := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
	return func(s *sample) int64 {
		if at < 0 || at >= len(s.Value) {
			return 0
		}
		return s.Value[at]
	}
}

// label is a number beside a sample, 0 where there is none.
func label(s *sample, name string) int64 {
	if values := s.NumLabel[name]; len(values) != 0 {
		return values[0]
	}
	return 0
}

// rowKey tells the rows of two profiles of one process apart, before names were given. Where everything is recorded, some that were resized share one.
func rowKey(p *profile.Profile, s *sample) string {
	var b strings.Builder
	for _, loc := range s.Location {
		address := loc.Address
		if m := loc.Mapping; m != nil && m.BuildID != "" { // a library that is unloaded between the two has other addresses then
			b.WriteString(m.BuildID)
			address += m.Offset - m.Start
		}
		fmt.Fprintf(&b, "%x,", address)
	}
	interval := cmp.Or(label(s, "interval"), p.Period)
	fmt.Fprintf(&b, "%d,%d,%d,%d,%d", label(s, "bytes"), label(s, "asked"), label(s, "moved"), label(s, "drawn"), interval)
	return b.String()
}

// growth weighs by how much a value has grown since before, per second.
func growth(before, after *profile.Profile, name string, seconds float64) weigh {
	had := map[string]int64{}
	old, now := value(before, name), value(after, name)
	for _, s := range before.Sample {
		had[rowKey(before, s)] += old(s)
	}
	grown := map[*sample]float64{}
	for _, s := range after.Sample {
		key := rowKey(after, s)
		known := min(had[key], now(s))
		had[key] -= known
		if delta := now(s) - known; delta > 0 && seconds > 0 {
			grown[s] = float64(delta) / seconds
		}
	}
	return func(s *sample) float64 { return grown[s] }
}

// sites adds the rows up by place, the largest first.
func sites(snapshot *Snapshot, p *profile.Profile, by weigh) []Site {
	found := map[string]*Site{}
	total := eachPlace(snapshot, p, by, func(place string, stack []string, size int64, weight float64) {
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

// eachPlace names the rows that count and says of each where it is, the size of its blocks, and its weight. Returns the sum of all.
func eachPlace(snapshot *Snapshot, p *profile.Profile, by weigh, f func(place string, stack []string, size int64, weight float64)) float64 {
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
	for _, s := range named.Sample {
		stack := places(s, snapshot.Hide)
		f(placeOf(stack), stack, label(s, "bytes"), float64(s.Value[0]))
	}
	return total
}

// weighed is a profile of the rows that count, with their weight as their only value: naming changes a profile, and takes time.
func weighed(p *profile.Profile, by weigh) (named *profile.Profile, total float64) {
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
	return list[:min(len(list), mostSites)]
}

// places lists a row's functions, innermost first, without those that are hidden.
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

// placeOf passes over what stands between the program and the allocator.
func placeOf(stack []string) string { return stack[report.Inner(stack)] }
