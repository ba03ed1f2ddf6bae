// Command commands generates docs/commands.md from the help texts of the tool's commands. Run it anywhere in the
// repository after a change to one of them. A test fails if the two differ.
package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seemalloc/tool/cli"
	"seemalloc/tool/gen/repo"
)

const document = "docs/commands.md"

func main() { repo.Main("commands", document, generateDocument) }

func generateDocument(string) (string, error) { return generate(cli.Commands()) }

// generate returns the text of the document: a list of the commands by group, and the help of each.
func generate(root *cobra.Command) (string, error) {
	var list, texts strings.Builder
	for _, group := range root.Groups() {
		fmt.Fprintf(&list, "\n**%s**\n\n", group.Title)
		for _, command := range root.Commands() {
			if command.GroupID != group.ID || command.Hidden {
				continue
			}
			text, err := help(command)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&list, "- [%s](#%s): %s\n", command.Name(), command.Name(), command.Short)
			fmt.Fprintf(&texts, "\n## %s\n\n```text\n%s```\n", command.Name(), text)
		}
	}
	return `<!-- Made by "go run ./tool/gen/commands" from the commands in tool/cli. Do not edit. -->
# Commands

The commands of the tool, with the text that ` + "`seemalloc COMMAND --help`" + ` prints.
` + list.String() + texts.String(), nil
}

// help returns the text that --help prints.
func help(command *cobra.Command) (string, error) {
	var out bytes.Buffer
	command.SetOut(&out)
	command.InitDefaultHelpFlag()
	err := command.Help()
	return out.String(), err
}
