// Package repo writes and compares generated documents of the repository.
package repo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Generator returns the text of a document. root is the root of the repository.
type Generator func(root string) (string, error)

// Main writes a document, whose path is relative to the root. It ends the program if that fails; name is the command in
// the message.
func Main(name, document string, generate Generator) {
	if err := write(document, generate); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func write(document string, generate Generator) error {
	root, err := Root()
	if err != nil {
		return err
	}
	text, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, document), []byte(text), 0o644)
}

// IsUpToDate reports whether a document has the text that would be written.
func IsUpToDate(document string, generate Generator) (bool, error) {
	root, err := Root()
	if err != nil {
		return false, err
	}
	want, err := generate(root)
	if err != nil {
		return false, err
	}
	got, err := os.ReadFile(filepath.Join(root, document))
	return string(got) == want, err
}

// Root returns the directory with go.mod, at or above the current directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("not within the repository: no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
}
