package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Delta is the change of one function or one stack.
type Delta struct {
	Name   string   `json:"name,omitempty"`
	Stack  []string `json:"stack,omitempty"` // innermost function first
	Before int64    `json:"before"`
	After  int64    `json:"after"`
	Change int64    `json:"change"`
	// Error is an upper bound of the standard error of Change from sampling. If the profiles are of one process, blocks
	// that are in both add nothing to it.
	Error StandardError `json:"standard_error"`

	sampled samplingError
	// State is "new" if the row is absent from the first profile, and "gone" if it is absent from the second.
	State string `json:"state,omitempty"`
}

// Diff holds the differences between two profiles, by function (flat values) and by stack.
type Diff struct {
	Type      string  `json:"type"`
	Unit      string  `json:"unit"`
	Total     Delta   `json:"total"`
	New       int     `json:"new_stacks"`
	Gone      int     `json:"gone_stacks"`
	Functions []Delta `json:"functions"`
	Stacks    []Delta `json:"stacks"`
}

// deltas collects the values of two profiles by key.
type deltas struct {
	rows  map[string]*Delta
	order []*Delta
}

func (d *deltas) rowFor(key string, make func() *Delta) *Delta {
	row := d.rows[key]
	if row == nil {
		row = make()
		d.rows[key] = row
		d.order = append(d.order, row)
	}
	return row
}

// NewDiff compares the values at index i of before with those at index j of after. Functions are compared by name
// because addresses differ between processes. It modifies both profiles: it removes the frames that they mark as
// uninteresting.
func NewDiff(before *profile.Profile, i int, after *profile.Profile, j int) (*Diff, error) {
	d := &Diff{Type: after.SampleType[j].Type, Unit: after.SampleType[j].Unit}
	if strings.HasSuffix(d.Type, "_objects") {
		d.Unit = "objects"
	}
	for _, p := range []*profile.Profile{before, after} {
		if err := p.RemoveUninteresting(); err != nil {
			return nil, fmt.Errorf("the profile's drop_frames cannot be read: %v", err)
		}
	}
	paired, counted := pairRows(before, after), map[string]bool{}
	functions, stacks := deltas{rows: map[string]*Delta{}}, deltas{rows: map[string]*Delta{}}
	for _, of := range []struct {
		p     *profile.Profile
		index int
		value func(*Delta) *int64
	}{
		{before, i, func(row *Delta) *int64 { return &row.Before }},
		{after, j, func(row *Delta) *int64 { return &row.After }},
	} {
		errorOf := paired.errorOf(of.p, of.index, counted)
		if errorOf == nil {
			errorOf = newSamplingError(of.p, of.index)
		}
		for _, sample := range of.p.Sample {
			var names []string
			for _, frame := range Frames(sample) {
				names = append(names, frame.Name)
			}
			function := functions.rowFor(names[0], func() *Delta { return &Delta{Name: names[0]} })
			stack := stacks.rowFor(strings.Join(names, "\n"), func() *Delta { return &Delta{Stack: names} })
			sampled := errorOf(sample)
			for _, row := range []*Delta{&d.Total, function, stack} {
				*of.value(row) += sample.Value[of.index]
				row.sampled.add(sampled)
			}
		}
	}
	d.Total.finish()
	if paired.errorOf(before, i, counted) == nil {
		d.Total.Error = StandardError(math.Sqrt(Variance(before, i) + Variance(after, j)))
	}
	d.Functions, d.Stacks = functions.finish(), stacks.finish()
	for _, stack := range d.Stacks {
		switch stack.State {
		case "new":
			d.New++
		case "gone":
			d.Gone++
		}
	}
	return d, nil
}

func (d *Delta) finish() {
	d.Change = d.After - d.Before
	d.Error = StandardError(math.Sqrt(d.sampled.variance()))
	switch {
	case d.Before == 0 && d.After != 0:
		d.State = "new"
	case d.Before != 0 && d.After == 0:
		d.State = "gone"
	}
}

// finish returns the rows with a change, the largest change first.
func (d *deltas) finish() []Delta {
	rows := []Delta{}
	for _, row := range d.order {
		if row.finish(); row.Change != 0 {
			rows = append(rows, *row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Delta) int {
		return cmp.Or(compareDown(a.Change, b.Change), -cmp.Compare(a.Change, b.Change), strings.Compare(a.Name, b.Name), slices.Compare(a.Stack, b.Stack))
	})
	return rows
}

// withinError reports whether the change is so small that it may be sampling error.
func (d *Delta) withinError() bool {
	const errors = 2
	return math.Abs(float64(d.Change)) <= errors*float64(d.Error)
}

// Text formats both tables with at most limit rows each. 0 shows all rows.
func (d *Diff) Text(limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%12s %12s %12s %13s  %s\n", "before", "after", "change", "± error", "function (flat)")
	unsure, unknown := false, false
	for i := range d.Functions {
		row := &d.Functions[i]
		if limit > 0 && i == limit {
			fmt.Fprintf(&b, "%52s  (%s more functions: -n 0 shows all)\n", "", Count(int64(len(d.Functions)-i)))
			break
		}
		unsure, unknown = unsure || row.withinError(), unknown || !row.Error.Known()
		fmt.Fprintf(&b, "%s  %s\n", d.columns(row), row.Name)
	}
	fmt.Fprintf(&b, "\n%12s %12s %12s %13s  %s\n", "before", "after", "change", "± error", "stack, innermost function first")
	for i := range d.Stacks {
		row := &d.Stacks[i]
		if limit > 0 && i == limit {
			fmt.Fprintf(&b, "%52s  (%s more stacks: -n 0 shows all)\n", "", Count(int64(len(d.Stacks)-i)))
			break
		}
		unsure, unknown = unsure || row.withinError(), unknown || !row.Error.Known()
		state := ""
		if row.State != "" {
			state = "(" + row.State + ") "
		}
		fmt.Fprintf(&b, "%s  %s%s\n", d.columns(row), state, strings.Join(row.Stack, " < "))
	}
	if unsure {
		b.WriteString("\n~: within twice the standard error, not significant\n")
	}
	if unknown {
		b.WriteString("\n± ?: standard error unknown\n")
	}
	return b.String()
}

func (d *Diff) columns(row *Delta) string {
	mark, error_ := " ", ""
	if row.withinError() {
		mark = "~"
	}
	if !row.Error.Known() {
		error_ = "± ?"
	} else if row.Error > 0 {
		error_ = "± " + Amount(int64(row.Error), d.Unit)
	}
	return fmt.Sprintf("%12s %12s %s%11s %13s", Amount(row.Before, d.Unit), Amount(row.After, d.Unit), mark, Signed(row.Change, d.Unit), error_)
}

// Signed formats a change with its sign.
func Signed(v int64, unit string) string {
	if v > 0 {
		return "+" + Amount(v, unit)
	}
	return Amount(v, unit)
}
