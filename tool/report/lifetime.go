package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// AgeClasses lists the age classes of a lifetime profile, the youngest first (core/profile/sampling/lifetimes.cc).
// Short lifetimes are those below 10 ms.
var AgeClasses = []string{"under 1us", "1us to 10us", "10us to 100us", "100us to 1ms", "1ms to 10ms", "10ms to 100ms", "100ms to 1s",
	"1s to 10s", "10s to 100s", "100s to 1000s", "over 1000s"}

// LifetimeRow holds the lifetimes of the blocks that one function, or one stack, allocated.
type LifetimeRow struct {
	Name         string           `json:"name"`
	Alive        int64            `json:"alive"` // live objects
	Freed        int64            `json:"freed"`
	FreedB       int64            `json:"freed_bytes"`
	FreedByOther int64            `json:"freed_by_another_thread"`
	Min          int64            `json:"least_ns"`
	Mean         float64          `json:"mean_ns"`
	Deviation    float64          `json:"deviation_ns"`
	Max          int64            `json:"most_ns"`
	Ages         map[string]int64 `json:"ages"` // freed objects by age class
	AgeBytes     map[string]int64 `json:"-"`
	Stack        []Frame          `json:"-"` // one of its stacks, innermost first
	squares      float64
}

// HasLifetimes reports whether this is a profile of the kind lifetime.
func HasLifetimes(p *profile.Profile) bool { return lifetimeColumns(p) != nil }

func lifetimeColumns(p *profile.Profile) []int {
	var columns []int
	for _, want := range []string{"alive_objects", "freed_objects", "freed_space"} {
		i := Column(p, want)
		if i < 0 {
			return nil
		}
		columns = append(columns, i)
	}
	return columns
}

// Lifetimes sums a lifetime profile by allocating function, the function with the most allocations first. Mean and
// deviation are over all blocks: each row of the profile holds those of one stack, one size and one way of being freed.
func Lifetimes(p *profile.Profile) []LifetimeRow {
	return lifetimesBy(p, func(stack []Frame) string { return stack[0].Name })
}

// LifetimesByStack sums by whole stack. The name of a row lists the stack's functions, one per line.
func LifetimesByStack(p *profile.Profile) []LifetimeRow { return lifetimesBy(p, StackName) }

// StackName returns a name that distinguishes stacks with different functions.
func StackName(stack []Frame) string {
	var names []string
	for _, frame := range stack {
		names = append(names, frame.Name)
	}
	return strings.Join(names, "\n")
}

func lifetimesBy(p *profile.Profile, nameOf func([]Frame) string) []LifetimeRow {
	columns := lifetimeColumns(p)
	rows := map[string]*LifetimeRow{}
	for _, sample := range p.Sample {
		stack := Frames(sample)
		name := nameOf(stack)
		row := rows[name]
		if row == nil {
			row = &LifetimeRow{Name: name, Min: math.MaxInt64, Ages: map[string]int64{}, AgeBytes: map[string]int64{}, Stack: stack}
			rows[name] = row
		}
		row.Alive += sample.Value[columns[0]]
		freed := sample.Value[columns[1]]
		if freed == 0 {
			continue
		}
		row.FreedB += sample.Value[columns[2]]
		age := first(sample.Label["lifetime"])
		row.Ages[age] += freed
		row.AgeBytes[age] += sample.Value[columns[2]]
		if first(sample.Label["freed_by"]) == "another thread" {
			row.FreedByOther += freed
		}
		mean, deviation := float64(Label(sample, "mean")), float64(Label(sample, "deviation"))
		all := float64(row.Freed + freed)
		row.Mean += (mean - row.Mean) * float64(freed) / all
		row.squares += (deviation*deviation + mean*mean - row.squares) * float64(freed) / all
		row.Freed += freed
		row.Min, row.Max = min(row.Min, Label(sample, "least")), max(row.Max, Label(sample, "most"))
	}
	var list []LifetimeRow
	for _, row := range rows {
		if row.Freed == 0 {
			row.Min = 0
		}
		row.Deviation = math.Sqrt(max(0, row.squares-row.Mean*row.Mean))
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b LifetimeRow) int {
		if n := (b.Freed + b.Alive) - (a.Freed + a.Alive); n != 0 {
			return int(max(-1, min(1, n)))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// LifetimeText formats the table.
func LifetimeText(rows []LifetimeRow, limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12s %12s %8s %9s %9s %9s %9s  %-14s  %s\n", "alive", "freed", "another%", "least", "mean", "deviation", "most", "mostly", "function")
	for i, row := range rows {
		if limit > 0 && i == limit {
			fmt.Fprintf(&b, "(%s more functions: -n 0 shows all)\n", Count(int64(len(rows)-i)))
			break
		}
		fmt.Fprintf(&b, "%12s %12s %8s %9s %9s %9s %9s  %-14s  %s\n", Count(row.Alive), Count(row.Freed),
			Percent(float64(row.FreedByOther), float64(row.Freed)), row.age(float64(row.Min)), row.age(row.Mean), row.age(row.Deviation),
			row.age(float64(row.Max)), row.dominantAgeClass(), row.Name)
	}
	return b.String()
}

func (row LifetimeRow) age(ns float64) string {
	if row.Freed == 0 {
		return "-"
	}
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.3g us", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	case ns < 1e12:
		return fmt.Sprintf("%.3g s", ns/1e9)
	}
	return time.Duration(ns).Round(time.Minute).String()
}

// dominantAgeClass returns the age class in which most blocks were freed.
func (row LifetimeRow) dominantAgeClass() string {
	best := "-"
	for name, count := range row.Ages {
		if count > row.Ages[best] || count == row.Ages[best] && name < best {
			best = name
		}
	}
	return best
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}
