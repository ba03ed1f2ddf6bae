package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Row is one function of a top report.
type Row struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Flat int64  `json:"flat"` // allocated by the function itself
	Cum  int64  `json:"cum"`  // by it and what it calls
}

// Top is a profile by function.
type Top struct {
	Type  string  `json:"type"` // a sample type of the profile: inuse_space …
	Unit  string  `json:"unit"` // bytes or objects
	Total int64   `json:"total"`
	Error float64 `json:"standard_error"` // of Total, from sampling
	// Records counts the profile's rows that have a value; each stands for one or more samples of one stack.
	Records int   `json:"records"`
	Period  int64 `json:"interval"`
	Rows    []Row `json:"functions"`
}

// SampleIndex finds the value of the profile's samples that a person asks for: by "inuse" or "alloc", in "bytes" or
// "objects"; or by the name of any sample type.
func SampleIndex(p *profile.Profile, by, unit string) (int, error) {
	want := by
	switch by {
	case "inuse", "alloc":
		want += map[string]string{"bytes": "_space", "objects": "_objects"}[unit]
	}
	var have []string
	for i, t := range p.SampleType {
		if t.Type == want {
			return i, nil
		}
		have = append(have, t.Type)
	}
	return 0, fmt.Errorf("no %s values in this profile: it has %s (choose with --by)", want, strings.Join(have, ", "))
}

// NewTop adds up the values at index by function. Frames that the profile itself calls uninteresting (the allocator's
// own) are taken off first, which changes p.
func NewTop(p *profile.Profile, index int) (*Top, error) {
	if err := p.RemoveUninteresting(); err != nil {
		return nil, fmt.Errorf("the profile's drop_frames cannot be read: %v", err)
	}
	t := &Top{Type: p.SampleType[index].Type, Unit: p.SampleType[index].Unit, Period: p.Period}
	if strings.HasSuffix(t.Type, "_objects") {
		t.Unit = "objects"
	}
	rows := map[string]*Row{}
	var order []*Row
	for _, sample := range p.Sample {
		value := sample.Value[index]
		if value == 0 {
			continue
		}
		t.Total += value
		t.Records++
		seen := map[*Row]bool{}
		for depth, frame := range frames(sample) {
			row := rows[frame.Name]
			if row == nil {
				row = &Row{Name: frame.Name, File: frame.File}
				rows[frame.Name] = row
				order = append(order, row)
			}
			if depth == 0 {
				row.Flat += value
			}
			if !seen[row] { // a recursive function counts once
				seen[row] = true
				row.Cum += value
			}
		}
	}
	for _, row := range order {
		t.Rows = append(t.Rows, *row)
	}
	t.Sort("flat")
	t.Error = math.Sqrt(variance(p, index))
	return t, nil
}

type frameName struct{ Name, File string }

// frames lists a sample's functions, innermost first.
func frames(sample *profile.Sample) []frameName {
	var list []frameName
	for _, loc := range sample.Location {
		for _, line := range loc.Line {
			if line.Function != nil {
				list = append(list, frameName{line.Function.Name, line.Function.Filename})
			}
		}
		if len(loc.Line) == 0 {
			list = append(list, frameName{Name: fmt.Sprintf("%#x", loc.Address)})
		}
	}
	if len(list) == 0 {
		list = append(list, frameName{Name: "(no stack)"})
	}
	return list
}

// Sort orders the rows by "flat" or "cum", largest first; equal ones by the other value, then by name.
func (t *Top) Sort(by string) {
	slices.SortFunc(t.Rows, func(a, b Row) int {
		a1, a2, b1, b2 := a.Flat, a.Cum, b.Flat, b.Cum
		if by == "cum" {
			a1, a2, b1, b2 = a2, a1, b2, b1
		}
		switch {
		case a1 != b1:
			return compareDown(a1, b1)
		case a2 != b2:
			return compareDown(a2, b2)
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// compareDown compares by size, not by sign: in a difference of profiles a large loss matters like a large gain.
func compareDown(a, b int64) int {
	if a, b := max(a, -a), max(b, -b); a != b {
		if a > b {
			return -1
		}
		return 1
	}
	return 0
}

// variance estimates the sampling error of the total at index, squared. A block of s bytes is recorded with
// probability q = 1-exp(-s/R) and then counted as 1/q blocks, so n counted blocks come from n·q recorded ones, each of
// which adds (1-q)/q² to the variance of the count: n·(1-q)/q in all, times s² for bytes.
func variance(p *profile.Profile, index int) float64 {
	kind, _, _ := strings.Cut(p.SampleType[index].Type, "_")
	objects, bytes := -1, -1
	for i, t := range p.SampleType {
		switch t.Type {
		case kind + "_objects":
			objects = i
		case kind + "_space":
			bytes = i
		}
	}
	if objects < 0 || bytes < 0 || p.Period <= 1 {
		return 0
	}
	sum := 0.0
	for _, sample := range p.Sample {
		n, b := float64(sample.Value[objects]), float64(sample.Value[bytes])
		if n <= 0 || b <= 0 {
			continue
		}
		size := b / n
		q := -math.Expm1(-size / float64(p.Period))
		one := n * (1 - q) / q
		if index == bytes {
			one *= size * size
		}
		sum += one
	}
	return sum
}

// Text writes the table: flat, flat%, sum%, cum, cum%, name.
func (t *Top) Text(limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12s %7s %7s %12s %7s  %s\n", "flat", "flat%", "sum%", "cum", "cum%", "function")
	sum := int64(0)
	for i, row := range t.Rows {
		if limit > 0 && i == limit {
			rest := int64(0)
			for _, row := range t.Rows[i:] {
				rest += row.Flat
			}
			fmt.Fprintf(&b, "%12s %7s %7s %12s %7s  (%s more functions: -n 0 shows all)\n",
				t.Value(rest), Percent(float64(rest), float64(t.Total)), "", "", "", Count(int64(len(t.Rows)-i)))
			break
		}
		sum += row.Flat
		total := float64(t.Total)
		fmt.Fprintf(&b, "%12s %7s %7s %12s %7s  %s\n", t.Value(row.Flat), Percent(float64(row.Flat), total),
			Percent(float64(sum), total), t.Value(row.Cum), Percent(float64(row.Cum), total), row.Name)
	}
	return b.String()
}

// Value writes one value of the report in its unit.
func (t *Top) Value(v int64) string {
	if t.Unit == "bytes" {
		return Bytes(float64(v))
	}
	return Count(v)
}
