package compare

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Allocator is an allocator to run the command with.
type Allocator struct {
	Name    string `json:"name"`
	Library string `json:"library,omitempty"` // to preload; the path is resolved because /proc/PID/maps shows resolved paths; "": the C library's own allocator
}

// Missing is an allocator that is not installed.
type Missing struct {
	Name    string `json:"name"`
	Package string `json:"package,omitempty"` // Debian package
	Reason  string `json:"reason,omitempty"`  // additional information
}

func (m Missing) String() string {
	if m.Package != "" {
		return fmt.Sprintf("%s is not installed (Debian: %s)", m.Name, m.Package)
	}
	return m.Name + ": " + m.Reason
}

// The two allocators that are not searched by soname.
const (
	Glibc     = "glibc"
	Seemalloc = "seemalloc"
)

// known lists the allocators in display order. For each name the first pattern with a matching file is used.
var known = []struct {
	name     string
	patterns []string // of file names
	debian   string
}{
	{Glibc, nil, ""},
	{"jemalloc", []string{"libjemalloc.so.2"}, "libjemalloc2"},
	// The minimal library first: the other one is the same allocator with profilers.
	{"tcmalloc", []string{"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}, "libtcmalloc-minimal4"},
	{"mimalloc", []string{"libmimalloc.so.3*", "libmimalloc.so.2*"}, "libmimalloc2.0"},
	{Seemalloc, nil, ""},
}

// Names lists the names of the known allocators.
func Names() []string {
	var names []string
	for _, one := range known {
		names = append(names, one.name)
	}
	return names
}

// LibraryDirs lists the library directories in search order.
func LibraryDirs() []string {
	var dirs []string
	for _, pattern := range []string{"/usr/local/lib", "/usr/local/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib/*-linux-gnu",
		"/usr/lib64", "/lib64", "/usr/lib"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// Finder finds allocators.
type Finder struct {
	Dirs   []string
	Ours   func() (string, error)  // finds this project's library
	Usable func(path string) error // reports whether the file can be preloaded
}

// Find resolves words of the form NAME or NAME=PATH, or all known names if the list is empty. Unknown names, duplicate
// names and unusable paths are errors. A known allocator that is not installed is not an error.
func (f Finder) Find(wanted []string) (found []Allocator, missing []Missing, err error) {
	if len(wanted) == 0 {
		wanted = Names()
	}
	seen := map[string]bool{}
	for _, word := range wanted {
		name, path, given := strings.Cut(word, "=")
		if seen[name] {
			return nil, nil, fmt.Errorf("%s is named twice", name)
		}
		seen[name] = true
		var one Allocator
		var lack *Missing
		if given {
			one, err = f.byPath(name, path)
		} else {
			one, lack, err = f.known(name)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case lack != nil:
			missing = append(missing, *lack)
		default:
			found = append(found, one)
		}
	}
	return found, missing, nil
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._+-]+$`) // also part of a file's name, with --keep-output

func (f Finder) byPath(name, path string) (Allocator, error) {
	if !namePattern.MatchString(name) || path == "" {
		return Allocator{}, fmt.Errorf("%q is not of the form NAME=PATH", name+"="+path)
	}
	if name == Glibc {
		return Allocator{}, fmt.Errorf("%s=%s: %s is the C library's own allocator: choose another name", name, path, Glibc)
	}
	path, err := resolvePath(path)
	if err != nil {
		return Allocator{}, fmt.Errorf("%s: no such file: expected an allocator's shared library", path)
	}
	if err := f.Usable(path); err != nil {
		return Allocator{}, err
	}
	return Allocator{name, path}, nil
}

func (f Finder) known(name string) (Allocator, *Missing, error) {
	switch name {
	case Glibc:
		return Allocator{Name: Glibc}, nil, nil
	case Seemalloc:
		path, err := f.Ours()
		if err == nil {
			path, err = resolvePath(path)
		}
		if err != nil {
			return Allocator{}, &Missing{Name: Seemalloc, Reason: err.Error()}, nil
		}
		return Allocator{Seemalloc, path}, nil, nil
	}
	for _, one := range known {
		if one.name != name {
			continue
		}
		if path := f.search(one.patterns); path != "" {
			return Allocator{name, path}, nil, nil
		}
		return Allocator{}, &Missing{Name: name, Package: one.debian}, nil
	}
	return Allocator{}, nil, fmt.Errorf("unknown allocator %q: expected %s, or NAME=PATH of a shared library",
		name, strings.Join(Names(), ", "))
}

// search returns the first usable file, or "".
func (f Finder) search(patterns []string) string {
	for _, pattern := range patterns {
		for _, dir := range f.Dirs {
			files, _ := filepath.Glob(filepath.Join(dir, pattern))
			slices.Sort(files)
			for _, file := range files {
				if path, err := resolvePath(file); err == nil && f.Usable(path) == nil {
					return path
				}
			}
		}
	}
	return ""
}

// resolvePath resolves the links in path, as /proc/PID/maps does. On an error it returns path unchanged.
func resolvePath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	followed, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return path, err
	}
	return followed, nil
}

// SharedLibrary explains why the file cannot be preloaded, or returns nil if its header permits it. Whether it fits
// this machine is found out by loading it.
func SharedLibrary(path string) error {
	if strings.ContainsAny(path, " :\t\n") {
		return fmt.Errorf("%q has a blank or a colon, which LD_PRELOAD cannot express: copy or link it to another place", path)
	}
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: not a shared library", path)
	}
	defer file.Close()
	if file.Type != elf.ET_DYN {
		return fmt.Errorf("%s: not a shared library, but %s", path, file.Type)
	}
	return nil
}
