package live

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"seemalloc/tool/report"
)

var (
	bold     = ansi.Style{}.Bold()
	faint    = ansi.Style{}.Faint()
	reversed = ansi.Style{}.Reverse(true)
	grown    = ansi.Style{}.ForegroundColor(ansi.Red)
	shrunk   = ansi.Style{}.ForegroundColor(ansi.Blue)
)

// headLines and footLines are the numbers of lines above and below the table. page has the rest.
const (
	headLines = 6
	footLines = 2
)

// page returns the number of visible functions.
func (s *Screen) page() int { return max(s.height-headLines-footLines, 1) }

// View implements the bubbletea model.
func (s *Screen) View() tea.View {
	view := tea.NewView(s.text())
	view.AltScreen = true
	return view
}

// text returns the screen, line by line.
func (s *Screen) text() string {
	lines := s.head()
	switch {
	case s.help:
		lines = append(lines[:1], strings.Split(help, "\n")...)
	case s.focusNeighbours != nil:
		lines = append(lines, s.neighbours()...)
	default:
		lines = append(lines, s.table()...)
	}
	space := max(s.height-footLines, 1)
	for len(lines) < space {
		lines = append(lines, "")
	}
	lines = append(lines[:space], s.foot()...)
	lines = lines[:min(len(lines), max(s.height, 1))]
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, s.width, "…")
	}
	return strings.Join(lines, "\n")
}

const help = `
  up, down, page up, page down, home, end   choose a function
  Enter, Esc     callers and callees, and back
  s              sort by flat (allocated by the function itself) or cum (including its callees)
  r              charge memory to the program's functions (as at first), or show stacks as they are
  t              next value: bytes or objects, in use or allocated since the start
  Tab            next kind of profile: heap, peak, churn …
  b              show changes from now on; again: show everything
  / or f         focus: only stacks with a function that matches a regular expression
  \ or i         ignore: no stacks with a function that matches
  x              hide: remove matching functions from the stacks
  c              clear the filters
  space          pause, continue
  + -            update more often, less often
  q              quit

  The numbers are estimated from samples; ± is the standard error of the total.
  Any key returns to the table.`

// head returns the lines above the table.
func (s *Screen) head() []string {
	state := "every " + s.options.Interval.String()
	if s.pause > s.options.Interval { // profiles take long
		state = "every " + s.pause.Round(100*time.Millisecond).String()
	}
	if s.paused {
		state = "paused"
	}
	if s.gone {
		state = "has ended"
	}
	title := bold.Styled(s.options.Title) + "  " + s.options.Kinds[s.kind]
	if !s.looked.IsZero() {
		title += "  " + s.looked.Format("15:04:05")
	}
	lines := []string{title + "  " + state, "", "", s.total(), s.filters()}
	if m := s.stats; m != nil {
		lines[1] = fmt.Sprintf("RSS %s: live %s, cached %s, fragmentation %s, metadata %s, not ours %s", mib(m.Memory.RSS), mib(m.Memory.Live),
			mib(m.Memory.Cached), mib(m.Memory.Fragmentation), mib(m.Memory.Metadata), mib(m.Memory.Foreign))
	}
	if r := s.rates; r != nil {
		lines[2] = fmt.Sprintf("per second: %.0f page faults, %.1f MB purged, %.1f MB refaulted, %.0f refills, %.0f remote frees",
			r.MinorFaults+r.MajorFaults, r.PurgedMB, r.RefaultMB, r.Refills, r.RemoteFrees)
	}
	heading := fmt.Sprintf("%12s %7s %12s %7s  %s", "flat", "flat%", "cum", "cum%", "function")
	if s.focusNeighbours != nil {
		heading = fmt.Sprintf("%12s %7s  %s", "value", "of it", "function")
	}
	return append(lines, reversed.Styled(padded(heading, s.width)))
}

func (s *Screen) total() string {
	t := s.top
	if t == nil {
		return ""
	}
	text := report.TypeName(t.Type) + ": "
	if s.base != nil {
		text = "change of " + text
	}
	text += t.Value(t.Total)
	if t.Error > 0 && len(s.options.Filters) == 0 {
		text += " ± " + report.Amount(int64(t.Error), t.Unit)
	}
	if s.base != nil {
		text += fmt.Sprintf(" (%s before)", report.Amount(t.Whole, t.Unit))
	} else if rate := t.Rate(); rate != "" {
		text += "; " + rate
	}
	if s.stats != nil {
		if losses := report.MissingData(s.stats.Sampling); losses != "" {
			text += "; missing: " + losses
		}
	}
	return text
}

func (s *Screen) filters() string {
	var parts []string
	for _, name := range []string{"focus", "ignore", "hide", "show", "thread"} {
		if filter := s.options.Filters[name]; filter != nil {
			parts = append(parts, name+" "+filter.String())
		}
	}
	raw := ""
	if s.options.Raw {
		raw = "stacks as they are (r: charge to the program's functions)  "
	}
	if parts == nil {
		return raw
	}
	return raw + "filtered: " + strings.Join(parts, ", ")
}

func (s *Screen) table() []string {
	t := s.top
	if t == nil && s.last == nil && s.problem == "" {
		return []string{"", "  Taking the first profile …"}
	}
	if t == nil {
		return nil
	}
	if len(t.Rows) == 0 {
		return []string{"", "  " + s.nothing()}
	}
	var lines []string
	for i := s.first; i < len(t.Rows) && i < s.first+s.page(); i++ {
		row := t.Rows[i]
		line := fmt.Sprintf("%12s %7s %12s %7s  %s", t.Value(row.Flat), report.Percent(float64(row.Flat), float64(t.Whole)), t.Value(row.Cum),
			report.Percent(float64(row.Cum), float64(t.Whole)), row.Place())
		switch {
		case i == s.row:
			line = reversed.Styled(padded(line, s.width))
		case t.Change && row.Cum > 0:
			line = grown.Styled(line)
		case t.Change && row.Cum < 0:
			line = shrunk.Styled(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// nothing explains why there are no rows.
func (s *Screen) nothing() string {
	switch {
	case len(s.options.Filters) > 0:
		return "No stack passes the filters; c clears them."
	case s.base != nil:
		return "Nothing has changed so far."
	case s.stats != nil && s.stats.Sampling.Interval == 0:
		return "Sampling is off: `seemalloc set PID sample=512K` turns it on."
	}
	return "Nothing has been sampled yet."
}

// neighbours is the page of one function.
func (s *Screen) neighbours() []string {
	n := s.focusNeighbours
	of := func(list []report.Named, space int) []string {
		var lines []string
		for i, one := range list {
			if i == space-1 && len(list) > space {
				return append(lines, faint.Styled(fmt.Sprintf("%12s %7s  %d more", "", "", len(list)-i)))
			}
			name := one.Name
			if name == "" {
				name = "(none: its stacks begin here)"
			}
			lines = append(lines, fmt.Sprintf("%12s %7s  %s", s.top.Value(one.Value), report.Percent(float64(one.Value), float64(n.Cum)), name))
		}
		return lines
	}
	half := max((s.page()-5)/2, 2)
	lines := append([]string{faint.Styled("called by")}, of(n.Callers, half)...)
	lines = append(lines, "", bold.Styled(fmt.Sprintf("%12s %7s  %s", s.top.Value(n.Cum), "", s.selected)),
		fmt.Sprintf("%12s %7s  itself", s.top.Value(n.Flat), report.Percent(float64(n.Flat), float64(n.Cum))), faint.Styled("calls"))
	return append(lines, of(n.Callees, half)...)
}

// foot returns the lines below the table.
func (s *Screen) foot() []string {
	note := s.problem
	if s.typed != nil {
		note = s.typed.filter + ": " + s.typed.text + "█  (a regular expression; Enter, Esc)"
	}
	keys := "q quit  ? help  Enter callers  s sort  t value  Tab kind  b changes  / focus  \\ ignore  space pause"
	if s.focusNeighbours != nil {
		keys = "Esc back  q quit  ? help"
	}
	return []string{note, faint.Styled(keys)}
}

func mib(bytes int64) string { return report.Bytes(float64(bytes)) }

// padded extends a line with blanks, so that a bar covers the full width.
func padded(line string, width int) string {
	return line + strings.Repeat(" ", max(width-ansi.StringWidth(line), 0))
}
