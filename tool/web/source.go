package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// maxSourceBytes is the maximum size of a source file. A longer file was not written by hand.
const maxSourceBytes = 16 << 20

// sources reads source files for the page, but only those named by a function of a profile that has been shown. Safe
// for concurrent use.
type sources struct {
	path, trim string // as in Options

	mutex sync.Mutex
	named map[string]bool
}

// allow records the files that the frames name.
func (s *sources) allow(frames []Frame) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.named == nil {
		s.named = map[string]bool{}
	}
	for _, frame := range frames {
		if frame.File != "" {
			s.named[frame.File] = true
		}
	}
}

func (s *sources) isNamed(file string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.named[file]
}

// places lists the possible paths of a source file, as pprof does: the compiled path, or for a relative or trimmed
// path, each directory of the search path and its parents.
func (s *sources) places(file string) []string {
	path := s.path
	if path == "" {
		path, _ = os.Getwd()
	}
	dirs := filepath.SplitList(path)
	rest := trimmed(file, s.trim, dirs)
	if filepath.IsAbs(rest) {
		return []string{rest}
	}
	var paths []string
	for _, dir := range dirs {
		for {
			paths = append(paths, filepath.Join(dir, rest))
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return paths
}

// trimmed removes the prefix of a path: the given one, or else everything up to the name of a searched directory.
func trimmed(file, trim string, dirs []string) string {
	if trim == "" {
		for _, dir := range dirs {
			if _, rest, found := strings.Cut(file, "/"+filepath.Base(dir)+"/"); found {
				return rest
			}
		}
	}
	for _, begin := range append(filepath.SplitList(trim), "/proc/self/cwd/./", "/proc/self/cwd/") {
		if rest, found := strings.CutPrefix(file, strings.TrimSuffix(begin, "/")+"/"); found {
			return rest
		}
	}
	return file
}

type source struct {
	Path     string   `json:"path"`     // where it was found
	Modified int64    `json:"modified"` // ms since 1970
	Lines    []string `json:"lines"`
}

func (s *sources) read(file string) (*source, error) {
	if !s.isNamed(file) {
		return nil, problem{http.StatusForbidden, fmt.Errorf("%s: no function of a displayed profile is in this file, so it is not read", file)}
	}
	for _, place := range s.places(file) {
		text, info, err := readText(place)
		switch {
		case err == nil:
			return &source{place, info.ModTime().UnixMilli(), strings.Split(strings.TrimSuffix(text, "\n"), "\n")}, nil
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, problem{http.StatusNotFound, err}
		}
	}
	return nil, problem{http.StatusNotFound, fmt.Errorf("%s is not on this machine; `seemalloc web --source-path FOLDER` searches another folder", file)}
}

// readText reads a regular file. Opening other files may block or have side effects.
func readText(path string) (string, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxSourceBytes:
		return "", nil, fmt.Errorf("%s has %d bytes: too long for source code", path, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSourceBytes))
	return string(text), info, err
}

func (s *Server) source(q url.Values) (any, error) {
	file := q.Get("file")
	if file == "" {
		return nil, badRequest("expected file=, the name of a file of source code")
	}
	return s.sources.read(file)
}
