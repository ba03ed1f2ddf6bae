package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"seemalloc/tool/attach"
)

// TraceHeader is the line above the events of a trace.
func TraceHeader() string {
	return fmt.Sprintf("%10s %-19s %-10s %12s %10s %8s %7s  %s\n", "time", "call", "reason", "bytes", "took", "thread", "class", "place")
}

// TraceLine formats one event. since is the start of the trace.
func TraceLine(e attach.Event, since int64, place string) string {
	class, call := "-", e.Call
	if e.SizeClass != 0 {
		class = Count(e.SizeClass)
	}
	if e.Refused {
		place += "  REFUSED"
	}
	return fmt.Sprintf("%10.6f %-19s %-10s %12s %10s %8d %7s  %s\n", float64(e.TimeNS-since)/float64(time.Second), call, e.Reason,
		Bytes(float64(e.Bytes)), FormatNanos(e.NS), e.Thread, class, place)
}

// FormatNanos formats a short time with its unit: "870 ns", "12.3 us", "4.56 ms".
func FormatNanos(ns int64) string {
	switch {
	case ns < 1000:
		return fmt.Sprintf("%d ns", ns)
	case ns < 1000_000:
		return fmt.Sprintf("%.1f us", float64(ns)/1e3)
	case ns < 1000_000_000:
		return fmt.Sprintf("%.2f ms", float64(ns)/1e6)
	}
	return fmt.Sprintf("%.2f s", float64(ns)/1e9)
}

// TraceTotals sums a trace by call and reason.
type TraceTotals struct {
	kinds map[[2]string]*traceKind
}

type traceKind struct {
	attach.CallCount
	sizes, times Histogram
}

// Add counts one event.
func (t *TraceTotals) Add(e attach.Event) {
	if t.kinds == nil {
		t.kinds = map[[2]string]*traceKind{}
	}
	key := [2]string{e.Call, e.Reason}
	kind := t.kinds[key]
	if kind == nil {
		kind = &traceKind{CallCount: attach.CallCount{Call: e.Call, Reason: e.Reason}}
		t.kinds[key] = kind
	}
	kind.Calls++
	kind.NS += e.NS
	if e.Refused {
		kind.Refused++
	} else {
		kind.Bytes += e.Bytes
	}
	kind.sizes.Add(e.Bytes)
	kind.times.Add(e.NS)
}

// sorted lists the kinds of calls, the longest total time first.
func (t *TraceTotals) sorted() []*traceKind {
	var list []*traceKind
	for _, kind := range t.kinds {
		list = append(list, kind)
	}
	slices.SortFunc(list, func(a, b *traceKind) int {
		if a.NS != b.NS {
			return compareDown(a.NS, b.NS)
		}
		return strings.Compare(a.Call+a.Reason, b.Call+b.Reason)
	})
	return list
}

// Text formats histograms of sizes and times for each call and reason, and the totals.
func (t *TraceTotals) Text(elapsed time.Duration, lost, dropped int64) string {
	var b strings.Builder
	kinds := t.sorted()
	for _, kind := range kinds {
		fmt.Fprintf(&b, "\n@bytes[%s, %s]:\n%s", kind.Call, kind.Reason, kind.sizes.Text(BinaryEdge))
		fmt.Fprintf(&b, "@took[%s, %s]:\n%s", kind.Call, kind.Reason, kind.times.Text(NanosecondEdge))
	}
	b.WriteByte('\n')
	var list attach.Calls
	for _, kind := range kinds {
		list = append(list, kind.CallCount)
	}
	b.WriteString(CallsTable(list, elapsed))
	fmt.Fprintf(&b, "Events lost %s (overwritten before they were read), dropped %s (not recorded)\n", Count(lost), Count(dropped))
	return b.String()
}

// TraceSummary is the last output of `trace --json`.
type TraceSummary struct {
	ElapsedSeconds float64          `json:"elapsed_s"`
	Lost           int64            `json:"lost"`
	Dropped        int64            `json:"dropped"`
	Calls          []TraceSummaryOf `json:"calls"`
}

// TraceSummaryOf is the summary of one call and reason.
type TraceSummaryOf struct {
	attach.CallCount
	Sizes []Bucket `json:"bytes_histogram"`
	Times []Bucket `json:"ns_histogram"`
}

// Summary returns the same data as Text, for programs.
func (t *TraceTotals) Summary(elapsed time.Duration, lost, dropped int64) TraceSummary {
	s := TraceSummary{ElapsedSeconds: elapsed.Seconds(), Lost: lost, Dropped: dropped, Calls: []TraceSummaryOf{}}
	for _, kind := range t.sorted() {
		s.Calls = append(s.Calls, TraceSummaryOf{kind.CallCount, kind.sizes.Buckets(), kind.times.Buckets()})
	}
	return s
}

// CallsTable formats a table of calls by call and reason, with their total and their share of one CPU.
func CallsTable(calls attach.Calls, elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-19s %-10s %10s %12s %8s %10s %10s\n", "call", "reason", "calls", "bytes", "refused", "time", "per call")
	sum := attach.CallCount{}
	row := func(call, reason string, c attach.CallCount) {
		each := int64(0)
		if c.Calls != 0 {
			each = c.NS / c.Calls
		}
		fmt.Fprintf(&b, "%-19s %-10s %10s %12s %8s %10s %10s\n", call, reason, Count(c.Calls), Bytes(float64(c.Bytes)), Count(c.Refused),
			FormatNanos(c.NS), FormatNanos(each))
	}
	for _, c := range calls {
		row(c.Call, c.Reason, c)
		sum.Calls += c.Calls
		sum.Bytes += c.Bytes
		sum.Refused += c.Refused
		sum.NS += c.NS
	}
	row("all", "", sum)
	fmt.Fprintf(&b, "Time in these calls: %s of one CPU over %s\n", Percent(float64(sum.NS), float64(elapsed)), Duration(elapsed))
	return b.String()
}
