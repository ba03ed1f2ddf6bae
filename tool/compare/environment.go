package compare

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Libraries that the caller's LD_PRELOAD may name and that would take the place of the one to be measured.
var allocatorLibraries = []string{"libjemalloc", "libtcmalloc", "libmimalloc", "libseemalloc", "libsnmalloc", "librpmalloc", "libhoard"}

// Variables by which allocators are told what to do.
var optionVariables = []string{"SEEMALLOC_CONF", "MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "MALLOC_", "MIMALLOC_", "TCMALLOC_",
	"GLIBC_TUNABLES"}

// Environment is env with this library preloaded first ("": none) in place of any other allocator; what else is preloaded
// stays.
func Environment(env []string, library string) []string {
	var preload, out []string
	if library != "" {
		preload = append(preload, library)
	}
	for _, variable := range env {
		value, found := strings.CutPrefix(variable, "LD_PRELOAD=")
		if !found {
			out = append(out, variable)
			continue
		}
		for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
			if !isAllocator(item) {
				preload = append(preload, item)
			}
		}
	}
	if len(preload) > 0 {
		out = append(out, "LD_PRELOAD="+strings.Join(preload, ":"))
	}
	return out
}

func isAllocator(path string) bool {
	for _, start := range allocatorLibraries {
		if strings.HasPrefix(filepath.Base(path), start) {
			return true
		}
	}
	return false
}

var mappedLibrary = regexp.MustCompile(`(?m)/((?:` + strings.Join(allocatorLibraries, "|") + `)[^/\n]*\.so[^/ \n]*)`)

// linkedAllocator is the file name of an allocator's library in /proc/PID/maps, "" if there is none.
func linkedAllocator(maps []byte) string {
	if found := mappedLibrary.FindSubmatch(maps); found != nil {
		return string(found[1])
	}
	return ""
}

// Options are the variables of env that reach an allocator: it does not run with its defaults then.
func Options(env []string) []string {
	var found []string
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		for _, start := range optionVariables {
			if value != "" && (name == start || strings.HasSuffix(start, "_") && strings.HasPrefix(name, start)) {
				found = append(found, variable)
				break
			}
		}
	}
	return found
}
