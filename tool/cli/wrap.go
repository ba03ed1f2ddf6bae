package cli

import (
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// wrapped breaks the lines of a heading at the width of the terminal. Output to a file or a pipe stays as it is.
func (a *app) wrapped(text string) string {
	file, isFile := a.out.(*os.File)
	if !isFile {
		return text
	}
	width, _, err := term.GetSize(file.Fd())
	if err != nil || width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		b.WriteString(wrap(line, "  ", width))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wrap breaks text between words into lines of at most width columns. All lines but the first are indented.
func wrap(text, indent string, width int) string {
	return strings.ReplaceAll(ansi.Wordwrap(text, max(width-len(indent), 1), ""), "\n", "\n"+indent)
}
