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

// stackFilter chooses stacks by the functions in them, as the page itself does in a profile: regular expressions, without regard to case.
type stackFilter struct {
	focus  *regexp.Regexp // a function must match; nil: any
	ignore *regexp.Regexp // none may
	module string         // the innermost function is of it; "": of any
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

// newFilters reads what chooses stacks, and what chooses rows.
func newFilters(q url.Values) (stacks stackFilter, rows labelFilter, err error) {
	if stacks, err = newStackFilter(q); err == nil {
		rows, err = newLabelFilter(q)
	}
	return stacks, rows, err
}

// ofModule leaves p as it is. Requires: the allocator's own frames are off.
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

// allocatingModule is that of the innermost function; of a row of deaths, of the innermost one that allocated. "": not known.
func allocatingModule(sample *profile.Sample) string {
	joint := slices.IndexFunc(sample.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return line.Function != nil && line.Function.Name == symbolize.Joint })
	})
	if joint+1 < len(sample.Location) {
		return moduleOf(sample.Location[joint+1])
	}
	return ""
}

// moduleOf is the name of the file that a location is in; "": not known.
func moduleOf(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" {
		return ""
	}
	return filepath.Base(l.Mapping.File)
}

// modulesOf lists those that a stackFilter can choose.
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
