package web

import (
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/pprof/profile"

	"seemalloc/tool/symbolize"
)

// stackFilter selects stacks by their functions, as the page does within a profile: with case-insensitive regular
// expressions.
type stackFilter struct {
	focus  *regexp.Regexp // some function must match; nil: any
	ignore *regexp.Regexp // no function may match
	module string         // module of the innermost function; "": any
}

// newStackFilter reads focus=, ignore= and module=.
func newStackFilter(q url.Values) (f stackFilter, err error) {
	f.module = q.Get("module")
	for name, wanted := range map[string]**regexp.Regexp{"focus": &f.focus, "ignore": &f.ignore} {
		as, err := pattern(q, name, "a regular expression")
		if err == nil && as != nil {
			as, err = regexp.Compile("(?i)" + as.String())
		}
		if err != nil {
			return f, err
		}
		*wanted = as
	}
	return f, nil
}

// newFilters reads the filters for stacks and those for rows.
func newFilters(q url.Values) (stacks stackFilter, rows labelFilter, err error) {
	if stacks, err = newStackFilter(q); err == nil {
		rows, err = newLabelFilter(q)
	}
	return stacks, rows, err
}

// ofModule does not modify p. It requires that the allocator's own frames have been removed.
func (f stackFilter) ofModule(p *profile.Profile) *profile.Profile {
	if f.module == "" {
		return p
	}
	chosen := withoutSamples(p)
	for _, sample := range p.Sample {
		if allocatingModule(sample) == f.module {
			chosen.Sample = append(chosen.Sample, sample)
		}
	}
	return chosen
}

// allocatingModule returns the module of the innermost function, or for a row of deaths that of the innermost
// allocating function. "": unknown.
func allocatingModule(sample *profile.Sample) string {
	freedBy := slices.IndexFunc(sample.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool {
			return line.Function != nil && line.Function.Name == symbolize.FreedByFrame
		})
	})
	if freedBy+1 < len(sample.Location) {
		return moduleOf(sample.Location[freedBy+1])
	}
	return ""
}

// moduleOf returns the base name of the file of a location; "": unknown.
func moduleOf(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" {
		return ""
	}
	return filepath.Base(l.Mapping.File)
}

// modulesOf lists the modules that a stackFilter can select.
func modulesOf(p *profile.Profile) []string {
	seen := map[string]bool{}
	for _, sample := range p.Sample {
		seen[allocatingModule(sample)] = true
	}
	delete(seen, "")
	return slices.Sorted(maps.Keys(seen))
}

func (f stackFilter) passes(names []string) bool {
	return (f.focus == nil || slices.ContainsFunc(names, f.focus.MatchString)) && (f.ignore == nil || !slices.ContainsFunc(names, f.ignore.MatchString))
}
