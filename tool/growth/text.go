package growth

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"seemalloc/tool/report"
)

// Text formats the result. limit names the limit of Row.SecondsLeft.
func (r *Result) Text(limit string) string {
	var b strings.Builder
	if len(r.Rows) > 0 {
		fmt.Fprintf(&b, "\n%12s %13s %12s  %-10s  %s\n", "per second", "± error", "holds now", "class", "function that holds it")
	}
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%12s %13s %12s  %-10s  %s\n", report.Bytes(row.PerS), "± "+report.Bytes(row.Error), report.Bytes(row.Live), row.Class, row.Place())
		for _, line := range row.Details(limit) {
			fmt.Fprintf(&b, "%51s  %s\n", "", line)
		}
	}
	b.WriteString("\n" + r.Summary() + "\n")
	return b.String()
}

// Place returns the function and its line.
func (f Frame) Place() string {
	if f.File == "" || f.Line == 0 {
		return f.Name
	}
	return fmt.Sprintf("%s %s:%d", f.Name, filepath.Base(f.File), f.Line)
}

// Details are the program's functions that call a row's function, and its facts.
func (row *Row) Details(limit string) []string {
	const callers = 3
	var lines []string
	for _, frame := range row.Stack[1:] {
		if len(lines) < callers && !frame.passedOver {
			lines = append(lines, "from "+frame.Place())
		}
	}
	return append(lines, row.Facts(limit)...)
}

// Facts are further facts about a row.
func (row *Row) Facts(limit string) []string {
	var lines, sizes []string
	for _, size := range row.Sizes {
		sizes = append(sizes, fmt.Sprintf("%s (%.0f %%)", report.Bytes(float64(size.Bytes)), 100*size.Share))
	}
	if len(sizes) > 0 {
		lines = append(lines, "blocks of "+strings.Join(sizes, ", "))
	}
	var parts []string
	for _, part := range row.Parts {
		parts = append(parts, fmt.Sprintf("%s %s/s", part.Name, report.Bytes(part.PerS)))
	}
	if len(parts) > 0 {
		lines = append(lines, "allocated in "+strings.Join(parts, ", "))
	}
	if row.Jump != 0 {
		lines = append(lines, fmt.Sprintf("besides, a jump of %s by large blocks", report.Signed(int64(row.Jump), "bytes")))
	}
	if row.Class == Cache {
		lines = append(lines, fmt.Sprintf("%.0f %% of what it keeps was freed meanwhile", 100*row.Freed))
	}
	if row.SecondsLeft != nil {
		lines = append(lines, fmt.Sprintf("reaches %s in %s at this rate", limit, longTime(*row.SecondsLeft)))
	}
	return lines
}

// longTime formats a number of seconds roughly.
func longTime(seconds float64) string {
	const minute, hour, day, year = 60.0, 3600.0, 86400.0, 365 * 86400.0
	switch {
	case seconds < 2*minute:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*hour:
		return fmt.Sprintf("%.0f min", seconds/minute)
	case seconds < 2*day:
		return fmt.Sprintf("%.0f h", seconds/hour)
	case seconds < year:
		return fmt.Sprintf("%.0f days", seconds/day)
	}
	return "more than a year"
}

// Summary says what was looked at, how all live memory changed, and what could not be seen.
func (r *Result) Summary() string {
	var b strings.Builder
	if len(r.Rows) == 0 && !r.Unattributed {
		b.WriteString("No function's memory grows steadily.\n")
	}
	fmt.Fprintf(&b, "Looked at %d profiles over %s.", r.Moments, report.Duration(time.Duration(r.Seconds*float64(time.Second))))
	if r.Exact != nil {
		fmt.Fprintf(&b, " All live memory changed by exactly %s a second.", report.Signed(int64(*r.Exact), "bytes"))
	}
	if r.Unattributed {
		b.WriteString("\nThis growth is steady, but there are too few samples to name its function: look longer (--for).")
	}
	if r.Unseen > 0 {
		fmt.Fprintf(&b, "\nA leak of less than %s/s in one function may not have been seen in this time.", report.Bytes(r.Unseen))
	}
	if r.Missing != "" {
		fmt.Fprintf(&b, "\nMissing: %s.", r.Missing)
	}
	if !r.Steady {
		b.WriteString("\nToo few profiles to distinguish steady growth from a jump.")
	}
	return b.String()
}

// Found reports whether anything grows.
func (r *Result) Found() bool { return len(r.Rows) > 0 || r.Unattributed }
