package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seemalloc/docs"
)

// optionsTopic is `seemalloc help options`: the generated docs/options.md, formatted for a terminal.
func (a *app) optionsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "The allocator's options",
		Long:  optionsText(docs.Options),
		Example: `  SEEMALLOC_CONF="sample:64K,purge_delay:250" ./program
  seemalloc run --conf sample:64K,purge_delay:250 -- ./program
  seemalloc set 4242 sample=64K`,
	}
}

// optionsText turns the Markdown table into paragraphs, because a table with a column of sentences does not fit a
// terminal.
func optionsText(markdown string) string {
	const width = 96
	var b strings.Builder
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\n")
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			if text := strings.TrimLeft(line, "# "); !strings.HasPrefix(line, "<!--") && (text != "" || b.Len() > 0) {
				b.WriteString(strings.ReplaceAll(text, "`", "") + "\n")
			}
		case len(cells) < 5 || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| Option"):
		default:
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.Trim(cells[i], " `"), `\|`, "|")
			}
			fmt.Fprintf(&b, "%s  (%s; default %s; set %s)\n", cells[0], cells[1], cells[2], cells[3])
			b.WriteString("    " + wrap(cells[4], "    ", width) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
