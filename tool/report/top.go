package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
)

// Row is one function of a top report.
type Row struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	// Line is the line with most of an interpreted function's memory; 0 for other functions.
	Line int64 `json:"line,omitempty"`
	Flat int64 `json:"flat"` // allocated by the function itself
	Cum  int64 `json:"cum"`  // including its callees
	// FlatError and CumError are the standard errors of Flat and Cum due to sampling.
	FlatError StandardError `json:"flat_error"`
	CumError  StandardError `json:"cum_error"`
	// PerSecond is Flat divided by the duration of the profile, for values that grow with time.
	PerSecond float64 `json:"flat_per_second,omitempty"`
}

// Top is a profile summed by function.
type Top struct {
	Type  string        `json:"type"` // a sample type of the profile, such as inuse_space
	Unit  string        `json:"unit"` // bytes or objects
	Total int64         `json:"total"`
	Error StandardError `json:"standard_error"` // of Total, due to sampling
	// Records counts the profile's nonzero rows. Each represents one or more samples of one stack.
	Records int   `json:"records"`
	Period  int64 `json:"interval"` // the sampling interval when the profile is taken
	// MinInterval and MaxInterval are the smallest and the largest interval at which the rows were sampled, or 0 if
	// unknown.
	MinInterval int64 `json:"least_interval,omitempty"`
	MaxInterval int64 `json:"most_interval,omitempty"`
	// Whole is the base of percentages: the total, or for a change the earlier total.
	Whole  int64 `json:"percentages_of"`
	Change bool  `json:"-"` // values are differences, shown with their sign
	// Seconds is the duration covered by values that grow with time. It is 0 for other values, and if it is unknown.
	Seconds float64 `json:"seconds,omitempty"`
	Rows    []Row   `json:"functions"`
}

// SampleIndex finds the sample type that the user selects: by "inuse", "alloc" or another kind, in "bytes" or
// "objects"; by the name of any sample type; or with "" the inuse type if there is one, else the profile's default.
func SampleIndex(p *profile.Profile, by, unit string) (int, error) {
	suffix := map[string]string{"bytes": "_space", "objects": "_objects"}[unit]
	want := by
	if by == "" {
		want = "inuse"
	}
	var have []string
	for i, t := range p.SampleType {
		if t.Type == want || t.Type == want+suffix {
			return i, nil
		}
		have = append(have, t.Type)
	}
	if by == "" && len(have) > 0 {
		return defaultIndex(p, suffix), nil
	}
	if len(have) == 0 {
		return 0, errors.New("this profile has no sample types, so it holds no values")
	}
	if want == "inuse" || want == "alloc" {
		want += suffix
	}
	return 0, fmt.Errorf("no %s values in this profile: it has %s (choose with --by)", want, strings.Join(have, ", "))
}

// defaultIndex returns the profile's default sample type or its last one. If that type also exists with the suffix, it
// returns the one with the suffix.
func defaultIndex(p *profile.Profile, suffix string) int {
	index := len(p.SampleType) - 1
	for i, t := range p.SampleType {
		if t.Type == p.DefaultSampleType {
			index = i
		}
	}
	kind, isSpace := strings.CutSuffix(p.SampleType[index].Type, "_space")
	if !isSpace {
		kind = strings.TrimSuffix(p.SampleType[index].Type, "_objects")
	}
	for i, t := range p.SampleType {
		if t.Type == kind+suffix {
			return i
		}
	}
	return index
}

// TypeName describes a sample type in words.
func TypeName(name string) string {
	words := map[string]string{
		"inuse_space": "bytes in use", "inuse_objects": "objects in use",
		"alloc_space": "bytes allocated", "alloc_objects": "objects allocated",
		"peak_space": "bytes in use at the peak", "peak_objects": "objects in use at the peak",
		"requested_space": "bytes requested",
		"moved_space":     "bytes copied by realloc", "moved_objects": "objects copied by realloc",
		"short_space": "bytes freed within 10 ms", "short_objects": "objects freed within 10 ms",
		"freed_space": "bytes freed", "freed_objects": "objects freed",
		"alive_space": "bytes alive", "alive_objects": "objects alive",
		"remote_free_space": "bytes freed by another thread", "remote_free_objects": "objects freed by another thread",
		"growth_space": "bytes of heap growth", "growth_objects": "steps of heap growth",
		"fragmentation_space": "free bytes, by heap metadata, pinned by blocks", "fragmentation_objects": "objects that pin free bytes",
		"cpu": "CPU time",
	}[name]
	if words == "" {
		return name
	}
	return words
}

// Total sums the values at index.
func Total(p *profile.Profile, index int) int64 {
	total := int64(0)
	for _, sample := range p.Sample {
		total += sample.Value[index]
	}
	return total
}

// Subtract returns the difference p - base. It consumes both profiles, and drops sample types that only one of them
// has. A comment marks the result as a difference, so that it is not taken for a whole profile after it has been saved
// and read again.
func Subtract(p, base *profile.Profile) (*profile.Profile, error) {
	return subtract(p, base, "difference")
}

// subtract implements Subtract and Window. kind is the first word of the comment.
func subtract(p, base *profile.Profile, kind string) (*profile.Profile, error) {
	both := []*profile.Profile{p, base}
	if err := profile.CompatibilizeSampleTypes(both); err != nil {
		return nil, fmt.Errorf("they have no sample type in common")
	}
	taken, comments, between := p.TimeNanos, p.Comments, int64(0)
	if p.TimeNanos != 0 && base.TimeNanos != 0 {
		between = max(p.TimeNanos-base.TimeNanos, 0)
	}
	was, is, paired := ExactAllocated(base), ExactAllocated(p), pairRows(base, p)
	base.Scale(-1)
	if p.PeriodType != nil && p.PeriodType.Unit == "bytes" {
		rescaleIntervals(base, p.Period)
	}
	base.PeriodType, base.Period = p.PeriodType, p.Period
	change, err := profile.Merge(both)
	if err != nil {
		return nil, err
	}
	if paired != nil {
		paired.mark(change)
	}
	what := kind + ": changes between two profiles"
	if between != 0 {
		what = kind + ": changes over " + Duration(time.Duration(between))
	}
	if was != nil && is != nil {
		what += fmt.Sprintf("; exactly %d bytes were allocated", *is-*was)
	}
	change.TimeNanos, change.DurationNanos, change.Comments = taken, between, append([]string{what}, comments...)
	return change, nil
}

// NewTop sums the values at index by function. It first removes from p the frames that the profile marks as
// uninteresting (the allocator's own), which modifies p.
func NewTop(p *profile.Profile, index int) (*Top, error) {
	if err := p.RemoveUninteresting(); err != nil {
		return nil, fmt.Errorf("the profile's drop_frames cannot be read: %v", err)
	}
	t := &Top{Type: p.SampleType[index].Type, Unit: p.SampleType[index].Unit, Period: p.Period, MinInterval: p.Period, MaxInterval: p.Period}
	if strings.HasSuffix(t.Type, "_objects") {
		t.Unit = "objects"
	}
	if cumulativeTypes.MatchString(t.Type) {
		t.Seconds = max(float64(p.DurationNanos), 0) / 1e9
	}
	type row struct {
		Row
		flat, cum samplingError
		lines     lineSums
	}
	rows := map[string]*row{}
	var order []*row
	errorOf := newSamplingError(p, index)
	for _, sample := range p.Sample {
		value, part := sample.Value[index], errorOf(sample)
		if value == 0 && part == (samplingError{}) {
			continue // in a difference, as many blocks may have come as gone
		}
		t.count(value, intervalOf(p, sample))
		seen := map[*row]bool{}
		for depth, place := range Places(sample) {
			// Each module in Python has its own main, and code outside of functions is always called <module>.
			key, isInterpreted := place.Name, place.isInterpreted()
			if isInterpreted {
				key += "\x00" + place.File
			}
			r := rows[key]
			if r == nil {
				r = &row{Row: Row{Name: place.Name, File: place.File}}
				rows[key] = r
				order = append(order, r)
			}
			if depth == 0 {
				r.Flat += value
				r.flat.add(part)
			}
			if !seen[r] { // a recursive function counts once
				seen[r] = true
				r.Cum += value
				r.cum.add(part)
				if isInterpreted {
					r.lines.add(place.Line, value, depth == 0)
				}
			}
		}
	}
	for _, r := range order {
		if r.Flat != 0 || r.Cum != 0 { // in a difference, values that cancelled out
			if t.Seconds > 0 {
				r.PerSecond = float64(r.Flat) / t.Seconds
			}
			r.FlatError, r.CumError = StandardError(math.Sqrt(r.flat.variance())), StandardError(math.Sqrt(r.cum.variance()))
			r.Line = r.lines.largest()
			t.Rows = append(t.Rows, r.Row)
		}
	}
	t.Sort("flat")
	t.Whole = t.Total
	t.Error = StandardError(math.Sqrt(Variance(p, index)))
	return t, nil
}

// count adds the value of a record that was sampled at this interval.
func (t *Top) count(value, interval int64) {
	if value == 0 {
		return
	}
	t.Total += value
	t.Records++
	if t.Records == 1 {
		t.MinInterval, t.MaxInterval = interval, interval
	} else {
		t.MinInterval, t.MaxInterval = min(t.MinInterval, interval), max(t.MaxInterval, interval)
	}
}

// ErrorText formats the accuracy of the total, to follow it. It returns "" if everything was recorded, or if the total
// does not count sampled blocks.
func (t *Top) ErrorText() string {
	switch {
	case !t.Error.Known() && (t.Unit == "bytes" || t.Unit == "objects"):
		return " (standard error unknown)"
	case !(t.Error > 0):
		return ""
	}
	at := Bytes(float64(t.MaxInterval))
	if t.MinInterval != t.MaxInterval {
		at = Bytes(float64(t.MinInterval)) + " to " + at
	}
	return fmt.Sprintf(" ± %s (standard error; sampled once in %s on average)", Amount(int64(t.Error), t.Unit), at)
}

// Frame is a function in a stack.
type Frame = owner.Frame

// Frames lists a sample's functions, innermost first.
func Frames(sample *profile.Sample) []Frame {
	var list []Frame
	for _, place := range Places(sample) {
		list = append(list, place.Frame)
	}
	return list
}

// Place is a function in a stack, and the line that it runs; 0: unknown.
type Place struct {
	Frame
	Line int64
}

// isInterpreted reports whether it is a function in Python or the like, which has no module.
func (p Place) isInterpreted() bool {
	return p.Module == "" && p.File != "" && owner.Classify(p.Frame).Interpreted
}

// Places lists a sample's functions with their lines, innermost first.
func Places(sample *profile.Sample) []Place {
	var list []Place
	for _, loc := range sample.Location {
		module := ""
		if loc.Mapping != nil {
			module = loc.Mapping.File
		}
		for _, line := range loc.Line {
			if line.Function != nil {
				list = append(list, Place{Frame{Name: line.Function.Name, File: line.Function.Filename, Module: module}, line.Line})
			}
		}
		if len(loc.Line) == 0 {
			list = append(list, Place{Frame: Frame{Name: fmt.Sprintf("%#x", loc.Address), Module: module}})
		}
	}
	if len(list) == 0 {
		list = append(list, Place{Frame: Frame{Name: "(no stack)"}})
	}
	return list
}

// lineSums sums values by line: those of the function itself, and with its callees.
type lineSums map[int64]*struct{ flat, cum int64 }

func (l *lineSums) add(line, value int64, isFlat bool) {
	if *l == nil {
		*l = lineSums{}
	}
	sum := (*l)[line]
	if sum == nil {
		sum = &struct{ flat, cum int64 }{}
		(*l)[line] = sum
	}
	sum.cum += value
	if isFlat {
		sum.flat += value
	}
}

// largest returns the line with most of the function's own memory or, if it has none, with its callees'.
func (l lineSums) largest() int64 {
	if len(l) == 0 {
		return 0
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(l)), func(a, b int64) int {
		return cmp.Or(cmp.Compare(l[a].flat, l[b].flat), cmp.Compare(l[a].cum, l[b].cum))
	})
}

// Place returns the function, and the file and line of an interpreted one.
func (r Row) Place() string {
	if r.Line == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s %s:%d", r.Name, filepath.Base(r.File), r.Line)
}

// Sort orders the rows by "flat" or "cum", the largest first; equal ones by the other value, then by name.
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

// compareDown compares absolute values, because in a difference of profiles a large loss matters as much as a large
// gain.
func compareDown(a, b int64) int {
	if a, b := max(a, -a), max(b, -b); a != b {
		if a > b {
			return -1
		}
		return 1
	}
	return 0
}

// Text formats the table: flat, flat%, sum%, flat/s for values that grow with time, cum, cum%, name.
func (t *Top) Text(limit int) string {
	var b strings.Builder
	row := func(flat, share, sum, rate, cum, cumShare, name string) {
		if t.rated() {
			sum = fmt.Sprintf("%7s %12s", sum, rate)
		}
		fmt.Fprintf(&b, "%12s %7s %7s %12s %7s  %s\n", flat, share, sum, cum, cumShare, name)
	}
	rate := func(flat int64) string {
		if !t.rated() {
			return ""
		}
		return Amount(int64(float64(flat)/t.Seconds), t.Unit)
	}
	row("flat", "flat%", "sum%", "flat/s", "cum", "cum%", "function")
	sum, total := int64(0), float64(t.Whole)
	for i, r := range t.Rows {
		if limit > 0 && i == limit {
			rest := int64(0)
			for _, r := range t.Rows[i:] {
				rest += r.Flat
			}
			row(t.Value(rest), Percent(float64(rest), total), "", rate(rest), "", "", fmt.Sprintf("(%s more functions: -n 0 shows all)", Count(int64(len(t.Rows)-i))))
			break
		}
		sum += r.Flat
		row(t.Value(r.Flat), Percent(float64(r.Flat), total), Percent(float64(sum), total), rate(r.Flat), t.Value(r.Cum),
			Percent(float64(r.Cum), total), r.Place())
	}
	return b.String()
}

// rated reports whether values are also shown per second.
func (t *Top) rated() bool { return t.Seconds > 0 }

// ConvertToChange turns the report into a difference. before is the earlier total and of the standard error. A
// difference between two moments or two processes has no rates.
func (t *Top) ConvertToChange(before int64, of StandardError) {
	t.Whole, t.Change, t.Error, t.Seconds = before, true, of, 0
	for i := range t.Rows {
		t.Rows[i].PerSecond = 0
	}
}

// Value formats one value of the report in its unit.
func (t *Top) Value(v int64) string {
	if t.Change {
		return Signed(v, t.Unit)
	}
	return Amount(v, t.Unit)
}
