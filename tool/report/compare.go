package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"seemalloc/tool/compare"
)

// The same text as in bench/harness/tables.py, for the same rules.
const compareLegend = `Medians, their ratio to the best of the row, and below them the smallest and the largest run.
~: no difference to the best can be called: the spreads overlap, or times differ by less than 5 % (one
thread) or 15 % (two or more), or there are fewer than five runs.`

// Compare formats the result of a comparison: one row per measure, one column per allocator.
func Compare(r *compare.Result) string {
	var b strings.Builder
	compareHead(&b, r)
	compareTable(&b, r)
	if len(r.Rows) > 0 {
		fmt.Fprintf(&b, "\n%s\nRSS: of the largest process; final: its last reading (one every %d ms) before the end.\n", compareLegend,
			compare.LastReadings.Milliseconds())
	}
	compareNotes(&b, r)
	return b.String()
}

func compareHead(b *strings.Builder, r *compare.Result) {
	threads := "1 thread"
	if r.Threads > 1 {
		threads = Count(int64(r.Threads)) + " threads"
	}
	fmt.Fprintf(b, "%s\n%s", shellWords(r.Command), Plural(r.Rounds, "round"))
	if r.Load != "" {
		fmt.Fprintf(b, " of the load `%s`", r.Load)
	} else if r.ForSeconds > 0 {
		fmt.Fprintf(b, " of %s", time.Duration(r.ForSeconds*float64(time.Second)))
	}
	fmt.Fprintf(b, ", %s, seed %d\n", threads, r.Seed)
	width := 0
	for _, a := range r.Allocators {
		width = max(width, utf8.RuneCountInString(a.Name))
	}
	for _, a := range r.Allocators {
		library := a.Library
		if library == "" {
			library = "the C library's own"
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, a.Name, library)
	}
}

func compareTable(b *strings.Builder, r *compare.Result) {
	var names []string
	for _, a := range r.Allocators {
		for _, row := range r.Rows {
			if _, ok := row.Cells[a.Name]; ok {
				names = append(names, a.Name)
				break
			}
		}
	}
	lines := [][]string{append([]string{""}, names...)}
	for _, row := range r.Rows {
		top, below := []string{row.Title}, []string{""}
		for _, name := range names {
			cell, ok := row.Cells[name]
			if !ok {
				top, below = append(top, "-        "), append(below, "")
				continue
			}
			top = append(top, fmt.Sprintf("%s %8s", compareValue(row.Unit, cell.Median), compareRatio(row, cell)))
			below = append(below, compareSpread(row.Unit, cell))
		}
		lines = append(lines, top)
		if strings.Join(below, "") != "" {
			lines = append(lines, below)
		}
	}
	if len(r.Rows) > 0 {
		b.WriteByte('\n')
		columns(b, lines)
	}
}

// columns formats lines of cells: the first column is left-aligned, the others right-aligned.
func columns(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				text.WriteString(cell + blanks)
			} else {
				text.WriteString("  " + blanks + cell)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

func compareRatio(row compare.Row, cell compare.Cell) string {
	all := true // no value at all
	for _, other := range row.Cells {
		all = all && other.Median == 0
	}
	mark := ""
	if cell.Unclear {
		mark = "~"
	}
	switch {
	case all || cell.Ratio == 0 && mark == "":
		return ""
	case cell.Best:
		return "best"
	case cell.Ratio == 0:
		return mark
	case cell.Ratio >= 100:
		return mark + Count(int64(cell.Ratio+0.5)) + "×"
	}
	return fmt.Sprintf("%s%.2f×", mark, cell.Ratio)
}

func compareSpread(unit compare.Unit, cell compare.Cell) string {
	low, high := compareValue(unit, cell.Low), compareValue(unit, cell.High)
	if low == high {
		return ""
	}
	number, lowUnit, _ := strings.Cut(low, " ")
	if _, highUnit, _ := strings.Cut(high, " "); lowUnit == highUnit {
		low = number
	}
	return low + "–" + high
}

func compareValue(unit compare.Unit, value float64) string {
	switch unit {
	case compare.Seconds:
		return Seconds(value)
	case compare.Bytes:
		return Bytes(value)
	}
	return Count(int64(value + 0.5))
}

// Seconds formats a time with three significant digits, and integers in full: "1,234 s", "1.23 s", "12.3 ms".
func Seconds(value float64) string {
	unit := "s"
	if value < 0.9995 {
		value, unit = value*1000, "ms"
	}
	switch {
	case value >= 99.95:
		return Count(int64(value+0.5)) + " " + unit
	case value >= 9.995:
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.2f %s", value, unit)
}

// Plural formats a count with its noun: "1 round", "5 rounds".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(int64(n)) + " " + thing + "s"
}

func compareNotes(b *strings.Builder, r *compare.Result) {
	var notes []string
	if r.Interrupted {
		notes = append(notes, "Interrupted: these are the runs until then.")
	}
	for _, one := range r.Excluded {
		notes = append(notes, fmt.Sprintf("%s failed in round %d and is excluded: %s", one.Name, one.Round, one.Reason))
	}
	for _, one := range r.Missing {
		notes = append(notes, one.String())
	}
	if len(r.Options) > 0 {
		notes = append(notes, "Allocator options in the environment: "+strings.Join(r.Options, " "))
	}
	notes = append(notes, r.Notes...)
	if disturbed := r.Disturbed(); disturbed > 0 {
		notes = append(notes, fmt.Sprintf("Other processes used more than 5 %% of a CPU during %d of %s.", disturbed, Plural(len(r.Runs), "run")))
	}
	if len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
}

// shellWords formats a command line for reading, as it could be typed. It quotes only words that would be misleading.
func shellWords(words []string) string {
	var quoted []string
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`;&|<>*?()#") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.ReplaceAll(strings.Join(quoted, " "), "\n", `\n`)
}
