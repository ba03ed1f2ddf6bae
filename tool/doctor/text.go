package doctor

import (
	"fmt"
	"strings"

	"seemalloc/tool/report"
)

const (
	indent = "  "
	width  = 110
)

// Text formats the diagnosis for people. The text begins with process.
func (d *Diagnosis) Text(process string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, checked for %.1f s: ", process, d.Seconds)
	if len(d.Findings) == 0 {
		b.WriteString("nothing found\n")
	} else {
		b.WriteString(report.Plural(len(d.Findings), "finding") + "\n")
	}
	for i, finding := range d.Findings {
		fmt.Fprintf(&b, "\n%d. %s: %s  [%s]\n", i+1, strings.ToUpper(string(finding.Severity)), finding.Title, finding.ID)
		b.WriteString(finding.text())
	}
	d.checksText(&b)
	return b.String()
}

func (f *Finding) text() string {
	var b strings.Builder
	paragraph(&b, "", "   ", f.Figure)
	paragraph(&b, "Why:    ", "   ", f.Why)
	for i, change := range f.Change {
		head := "        "
		if i == 0 {
			head = "Change: "
		}
		paragraph(&b, head+"- ", "   ", change)
	}
	if len(f.Sites) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "   %s:\n", f.Places)
	for _, site := range f.Sites {
		size := ""
		if site.Size != 0 {
			size = fmt.Sprintf(", blocks of %s", report.Bytes(float64(site.Size)))
		}
		fmt.Fprintf(&b, "   %12s %4s  %s%s\n", report.Bytes(site.Bytes), percent(site.Share), site.Place, size)
		for _, caller := range site.callers() {
			fmt.Fprintf(&b, "   %12s %4s    from %s\n", "", "", caller)
		}
		for _, note := range site.Notes {
			fmt.Fprintf(&b, "   %12s %4s    %s\n", "", "", note)
		}
	}
	return b.String()
}

// callers returns the next few callers of the site's function.
func (s *Site) callers() []string {
	const limit = 3
	for i, site := range s.Stack {
		if site == s.Place {
			return s.Stack[i+1 : min(i+1+limit, len(s.Stack))]
		}
	}
	return nil
}

// paragraph writes head followed by text, with a hanging indent of head's width.
func paragraph(b *strings.Builder, head, left, text string) {
	line := left + head
	blank := strings.Repeat(" ", len(line))
	first := true
	for _, word := range strings.Fields(text) {
		if !first && len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line, first = blank, true
		}
		if !first {
			line += " "
		}
		line += word
		first = false
	}
	b.WriteString(line + "\n")
}

func (d *Diagnosis) checksText(b *strings.Builder) {
	b.WriteString("\nChecked\n")
	bad := map[string]bool{}
	for _, finding := range d.Findings {
		bad[finding.ID] = true
	}
	for _, result := range d.Checks {
		state, text := "ok", result.Text
		switch {
		case result.Missing != "":
			state, text = "??", result.Missing
		case bad[result.ID]:
			state = "!!"
		}
		fmt.Fprintf(b, indent+"%s %-48s %s\n", state, result.Title, text)
	}
}
