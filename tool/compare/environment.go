package compare

import (
	"path/filepath"
	"regexp"
	"strings"
)

// allocatorLibraries are libraries in the caller's LD_PRELOAD that would replace the library to be measured.
var allocatorLibraries = []string{"libjemalloc", "libtcmalloc", "libmimalloc", "libseemalloc", "libsnmalloc", "librpmalloc", "libhoard"}

// optionVariables are environment variables that configure allocators.
var optionVariables = []string{"SEEMALLOC_CONF", "MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "MALLOC_", "MIMALLOC_", "TCMALLOC_",
	"GLIBC_TUNABLES"}

// Environment returns env with this library first in LD_PRELOAD ("": none). It removes other allocators from LD_PRELOAD
// and keeps all other libraries.
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

// linkedAllocator returns the file name of an allocator's library in /proc/PID/maps, or "" if there is none.
func linkedAllocator(maps []byte) string {
	if found := mappedLibrary.FindSubmatch(maps); found != nil {
		return string(found[1])
	}
	return ""
}

// Options returns the variables of env that configure an allocator, which then does not run with its defaults.
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
