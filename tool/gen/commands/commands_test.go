package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"seemalloc/tool/gen/repo"
)

// docs/commands.md must match the help texts.
func TestDocumentIsUpToDate(t *testing.T) {
	same, err := repo.IsUpToDate(document, generateDocument)
	if err != nil {
		t.Fatal(err)
	}
	if !same {
		t.Error("docs/commands.md is not what the commands say: run `go run ./tool/gen/commands`")
	}
}

func TestEachCommandOfAGroupIsListed(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	root.AddGroup(&cobra.Group{ID: "one", Title: "First:"})
	run := func(*cobra.Command, []string) {}
	root.AddCommand(&cobra.Command{Use: "paint WALL", GroupID: "one", Short: "Paint a wall", Long: "Paints a wall.", Run: run},
		&cobra.Command{Use: "secret", GroupID: "one", Hidden: true, Run: run})
	text, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"**First:**\n\n- [paint](#paint): Paint a wall\n", "\n## paint\n\n```text\nPaints a wall.\n\nUsage:\n  tool paint WALL"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a hidden command is in\n%s", text)
	}
}
