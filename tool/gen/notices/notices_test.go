package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seemalloc/tool/gen/repo"
)

// THIRD_PARTY.md must contain exactly the components, with their current versions.
func TestNoticesAreFresh(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := components(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, c := range all {
		want = append(want, c.title())
	}
	for _, line := range strings.Split(string(text), "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			got = append(got, title)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("THIRD_PARTY.md names\n%s\nexpected\n%s\nRun `go run ./tool/gen/notices`.", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
