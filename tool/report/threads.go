package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
)

// The labels that hold the thread of a sample (core/profile/heap/thread_rows.h): the allocating thread, or in a CPU
// profile the running one.
const (
	ThreadLabel = "thread"
	TIDLabel    = "tid"
)

// HasThreads reports whether the profile's samples are labelled with their thread. It returns true for a profile
// without samples.
func HasThreads(p *profile.Profile) bool {
	return len(p.Sample) == 0 || slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool { return len(s.Label[ThreadLabel]) > 0 })
}

// IsOfThread reports whether the sample belongs to a thread with a name that matches the pattern, or an id that equals
// it.
func IsOfThread(sample *profile.Sample, wanted *regexp.Regexp) bool {
	return slices.ContainsFunc(sample.Label[ThreadLabel], wanted.MatchString) ||
		slices.ContainsFunc(sample.NumLabel[TIDLabel], func(tid int64) bool { return strconv.FormatInt(tid, 10) == wanted.String() })
}

// FilterThreads removes from p the samples of all other threads. It reports whether any remain.
func FilterThreads(p *profile.Profile, wanted *regexp.Regexp) bool {
	var kept []*profile.Sample
	for _, sample := range p.Sample {
		if IsOfThread(sample, wanted) {
			kept = append(kept, sample)
		}
	}
	p.Sample = kept
	return len(kept) > 0
}

// ThreadNames lists the names of the profile's threads.
func ThreadNames(p *profile.Profile) []string {
	names := map[string]bool{}
	for _, sample := range p.Sample {
		for _, name := range sample.Label[ThreadLabel] {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ThreadRow is the memory or the CPU time of one thread.
type ThreadRow struct {
	Name string `json:"thread"`
	TID  int64  `json:"tid,omitempty"` // 0: more than one thread
	// Value is of the selected sample type. Count is the same in objects or samples.
	Value int64 `json:"value"`
	Count int64 `json:"count"`
	// Functions are its largest functions, without those of standard libraries.
	Functions []Named `json:"functions"`
}

// Threads sums the values at index by thread, the largest first. Samples without labels form a row without a name.
func Threads(p *profile.Profile, index int) []ThreadRow {
	type key struct {
		name string
		tid  int64
	}
	type sums struct {
		value, count int64
		functions    map[string]int64
	}
	counts := countIndex(p, index)
	rows := map[key]*sums{}
	for _, sample := range p.Sample {
		id := key{first(sample.Label[ThreadLabel]), Label(sample, TIDLabel)}
		row := rows[id]
		if row == nil {
			row = &sums{functions: map[string]int64{}}
			rows[id] = row
		}
		row.value += sample.Value[index]
		row.count += sample.Value[counts]
		stack := Frames(sample)
		row.functions[stack[owner.Inner(stack)].Name] += sample.Value[index]
	}
	var list []ThreadRow
	for id, row := range rows {
		if row.value != 0 || row.count != 0 { // in a difference, values that cancelled out
			list = append(list, ThreadRow{id.name, id.tid, row.value, row.count, largestFirst(row.functions)})
		}
	}
	slices.SortFunc(list, func(a, b ThreadRow) int {
		switch {
		case a.Value != b.Value:
			return compareDown(a.Value, b.Value)
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		}
		return int(a.TID - b.TID)
	})
	return list
}

// countIndex finds the count that belongs to the value at index: objects for bytes, samples for time.
func countIndex(p *profile.Profile, index int) int {
	kind, isSpace := strings.CutSuffix(p.SampleType[index].Type, "_space")
	for i, t := range p.SampleType {
		if isSpace && t.Type == kind+"_objects" || !isSpace && t.Type == "samples" {
			return i
		}
	}
	return index
}

// printable replaces control characters in a thread's name, because a program may choose any name and a terminal would
// execute them.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name)
}

// ThreadText formats the table of threads.
func (t *Top) ThreadText(rows []ThreadRow, limit int) string {
	var b strings.Builder
	total := float64(t.Whole)
	count := "objects"
	if t.Unit == "nanoseconds" {
		count = "samples"
	}
	fmt.Fprintf(&b, "%12s %7s %12s %9s  %-16s  %s\n", "value", "value%", count, "tid", "thread", "mostly")
	for i, row := range rows {
		if limit > 0 && i == limit {
			rest := int64(0)
			for _, row := range rows[i:] {
				rest += row.Value
			}
			fmt.Fprintf(&b, "%12s %7s %12s %9s  (%s more threads: -n 0 shows all)\n", t.Value(rest), Percent(float64(rest), total), "", "", Count(int64(len(rows)-i)))
			break
		}
		tid, mostly := "-", ""
		if row.TID != 0 {
			tid = strconv.FormatInt(row.TID, 10)
		}
		if len(row.Functions) > 0 && row.Value != 0 {
			mostly = fmt.Sprintf("%s %.0f%%", row.Functions[0].Name, 100*float64(row.Functions[0].Value)/float64(row.Value))
		}
		fmt.Fprintf(&b, "%12s %7s %12s %9s  %-16s  %s\n", t.Value(row.Value), Percent(float64(row.Value), total), Count(row.Count), tid, printable(row.Name), mostly)
	}
	return b.String()
}
