// Package repo finds the root of the repository, for the generators of documents.
package repo

import (
	"errors"
	"os"
	"path/filepath"
)

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
