package report

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// MissingOfPython describes the objects of Python that a heap profile lacks, because Python maps their memory itself; "":
// none.
func MissingOfPython(p *profile.Profile) string {
	const comment = "python: blocks of 512 bytes and less are in memory that Python maps itself"
	if !slices.ContainsFunc(p.Comments, func(c string) bool { return strings.HasPrefix(c, comment) }) {
		return ""
	}
	return "Python's objects of 512 bytes and less (start it with PYTHONMALLOC=malloc)"
}
