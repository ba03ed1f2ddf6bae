// Package library finds libseemalloc.so for `seemalloc run`.
package library

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The file names of the two variants.
const (
	Full    = "libseemalloc.so"
	Minimal = "libseemalloc_minimal.so"
)

// Find returns the absolute path of the library called name. If explicit (a flag), or else $SEEMALLOC_LIB, is set, only
// that path is used; it may be a file or a directory. The error lists the paths that were searched.
func Find(name, explicit string) (string, error) {
	for _, given := range []struct{ path, origin string }{{explicit, "--lib"}, {os.Getenv("SEEMALLOC_LIB"), "$SEEMALLOC_LIB"}} {
		if given.path == "" {
			continue
		}
		path, err := filepath.Abs(given.path)
		if err == nil && isDir(path) {
			path = filepath.Join(path, name)
		}
		if err != nil || !isFile(path) {
			return "", fmt.Errorf("library not found: %s is %s, which does not exist: `./dev build` creates out/lib/%s", given.origin, path, name)
		}
		return usable(path)
	}
	paths := searchPaths(name)
	for _, path := range paths {
		if isFile(path) {
			return usable(path)
		}
	}
	return "", fmt.Errorf("library not found: searched %s: build it with `./dev build`, or name it with --lib PATH or $SEEMALLOC_LIB",
		strings.Join(paths, ", "))
}

// searchPaths lists the possible paths of the library. The directory of this program comes first, so that a build tree
// uses its own library.
func searchPaths(name string) []string {
	var list []string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		dir := filepath.Dir(self)
		list = append(list, filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), "lib", name))
	}
	list = append(list, filepath.Join("/usr/local/lib", name), filepath.Join("/usr/lib", name))
	if triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]; triplet != "" {
		list = append(list, filepath.Join("/usr/local/lib", triplet, name), filepath.Join("/usr/lib", triplet, name))
	}
	return append(list, filepath.Join("/usr/lib64", name))
}

// usable rejects paths that LD_PRELOAD cannot express.
func usable(path string) (string, error) {
	if strings.ContainsAny(path, " :\t\n") {
		return "", fmt.Errorf("the library's path %q has a blank or a colon, which LD_PRELOAD cannot express: copy or link it to another place and use --lib", path)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
