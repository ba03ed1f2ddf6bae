// Command options generates docs/options.md from core/base/options_table.h. Run it anywhere in the repository after a
// change to the table. A test fails if the two differ.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"seemalloc/tool/gen/repo"
)

const document = "docs/options.md"

func main() { repo.Main("options", document, generate) }

// generate returns the text of the document.
func generate(root string) (string, error) {
	table, err := os.ReadFile(filepath.Join(root, "core/base/options_table.h"))
	if err != nil {
		return "", err
	}
	rows, err := parseTable(string(table))
	if err != nil {
		return "", fmt.Errorf("core/base/options_table.h: %w", err)
	}
	source, err := os.ReadFile(filepath.Join(root, "core/base/options.cc"))
	if err != nil {
		return "", err
	}
	words, err := parseChoices(string(source))
	if err != nil {
		return "", fmt.Errorf("core/base/options.cc: %w", err)
	}
	for i := range rows {
		rows[i].words = words[rows[i].name]
		if rows[i].kind == "kChoice" && uint64(len(rows[i].words)) != rows[i].max+1 {
			return "", fmt.Errorf("core/base/options.cc: %d words for the choice %s, expected %d", len(rows[i].words), rows[i].name, rows[i].max+1)
		}
	}
	return markdown(rows), nil
}
