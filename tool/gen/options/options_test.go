package main

import (
	"os"
	"strings"
	"testing"

	"seemalloc/tool/gen/repo"
)

// docs/options.md must match the table.
func TestDocumentIsUpToDate(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	same, err := repo.IsUpToDate(document, generate)
	if err != nil {
		t.Fatal(err)
	}
	if !same {
		t.Error("docs/options.md is not what core/base/options_table.h says: run `go run ./tool/gen/options`")
	}
	header, err := os.ReadFile(root + "/core/base/options_table.h")
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count("\n"+string(header), "\nOPTION("); rows != strings.Count(want, "\n| `") {
		t.Errorf("the table has %d rows, the document %d", rows, strings.Count(want, "\n| `"))
	}
}

func TestParseTable(t *testing.T) {
	rows, err := parseTable(`// A comment with OPTION(x) in it.
OPTION(sample, kBytes, 512 * KiB, 0, TiB, kAny,  // another
       "first, with a comma and (parentheses) // no comment; "
       "second \"quoted\"")
OPTION(helper, kSwitch, 1, 0, 1, kStart, "x")`)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].fallback != 512<<10 || rows[0].max != 1<<40 || rows[1].name != "helper" ||
		rows[0].help != `first, with a comma and (parentheses) // no comment; second "quoted"` {
		t.Errorf("%+v", rows)
	}
	for name, table := range map[string]string{
		"nothing":       "",
		"a column more": `OPTION(a, kBytes, 1, 2, 3, kAny, "x", 4)`,
		"not closed":    `OPTION(a, kBytes, 1, 2, 3, kAny, "x"`,
		"a new kind":    `OPTION(a, kColour, 1, 2, 3, kAny, "x")`,
		"a new time":    `OPTION(a, kBytes, 1, 2, 3, kNever, "x")`,
		"a new unit":    `OPTION(a, kBytes, 1, 2, 3 * EiB, kAny, "x")`,
		"no help":       `OPTION(a, kBytes, 1, 2, 3, kAny, kHelp)`,
		"something new": `OPTIONS(a) OPTION(a, kBytes, 1, 2, 3, kAny, "x")`,
		"a rest":        `OPTION(a, kBytes, 1, 2, 3, kAny, "x") #if 0`,
	} {
		if _, err := parseTable(table); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
