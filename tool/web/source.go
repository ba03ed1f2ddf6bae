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

// mostSource is the longest file that is shown: longer ones are no text that somebody wrote.
const mostSource = 16 << 20

// sources reads files of source code for the page: those alone that a function of a profile that was shown is said to be in. Safe for
// concurrent use.
type sources struct {
	path, trim string // as in Options

	mutex sync.Mutex
	named map[string]bool
}

// allow notes the files that the frames name.
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

// places lists where the source may lie, as pprof looks for it: where it was compiled, or, of a path whose beginning is taken off
// or that is relative, in each folder of the path and those above it.
func (s *sources) places(file string) []string {
	path := s.path
	if path == "" {
		path, _ = os.Getwd()
	}
	folders := filepath.SplitList(path)
	rest := trimmed(file, s.trim, folders)
	if filepath.IsAbs(rest) {
		return []string{rest}
	}
	var places []string
	for _, folder := range folders {
		for {
			places = append(places, filepath.Join(folder, rest))
			parent := filepath.Dir(folder)
			if parent == folder {
				break
			}
			folder = parent
		}
	}
	return places
}

// trimmed takes the beginning of a path off: what was asked for, or else all up to the name of a folder that is looked in.
func trimmed(file, trim string, folders []string) string {
	if trim == "" {
		for _, folder := range folders {
			if _, rest, found := strings.Cut(file, "/"+filepath.Base(folder)+"/"); found {
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
		return nil, problem{http.StatusForbidden, fmt.Errorf("%s: no function of a profile that was shown is in this file, so it is not read", file)}
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
	return nil, problem{http.StatusNotFound, fmt.Errorf("%s is not on this machine; --source-path FOLDER of `seemalloc web` says where else it lies", file)}
}

// readText reads a regular file; opening anything else may wait, or do something.
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
	case info.Size() > mostSource:
		return "", nil, fmt.Errorf("%s has %d bytes: too long for source code", path, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostSource))
	return string(text), info, err
}

func (s *Server) source(q url.Values) (any, error) {
	file := q.Get("file")
	if file == "" {
		return nil, badRequest("expected file=, the name of a file of source code")
	}
	return s.sources.read(file)
}
