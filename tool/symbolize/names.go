package symbolize

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/google/pprof/profile"
	"github.com/ianlancetaylor/demangle"
)

// Style determines how much of a C++ or Rust name is shown.
type Style string

// The styles, from short to long.
const (
	Short     Style = "short"     // std::vector::push_back, pprof's default
	Templates Style = "templates" // std::vector<int, std::allocator<int>>::push_back
	Full      Style = "full"      // … with the types of the parameters
)

// ParseStyle reads a style's name.
func ParseStyle(name string) (Style, error) {
	switch s := Style(name); s {
	case Short, Templates, Full:
		return s, nil
	}
	return "", fmt.Errorf("%q is not a style of names: short, templates or full", name)
}

// maxName limits the length of a demangled name (2^n characters), because some templates expand to megabytes.
const maxName = 14

var options = map[Style][]demangle.Option{
	Short:     {demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams, demangle.NoABITags, demangle.MaxLength(maxName)},
	Templates: {demangle.NoParams, demangle.NoEnclosingParams, demangle.NoABITags, demangle.MaxLength(maxName)},
	Full:      {demangle.NoClones, demangle.MaxLength(maxName)},
}

// Compilers split and specialize functions. Reports show foo.cold and foo.constprop.0 as foo.
var cloneSuffix = regexp.MustCompile(`(\.(constprop|isra|part|cold|lto_priv|llvm|localalias)(\.\d+)*)+$`)

// Demangle converts a linkage name to a readable one.
func Demangle(system string, style Style) string {
	name, version, versioned := strings.Cut(system, "@") // foo@GLIBC_2.2.5
	if !versioned || version == "" {
		name = system
	}
	if name, err := demangle.ToString(name, options[style]...); err == nil {
		return name
	}
	return cloneSuffix.ReplaceAllString(name, "")
}

// Rename changes the style of all functions in p that have a linkage name.
func Rename(p *profile.Profile, style Style) {
	for _, f := range p.Function {
		if strings.HasPrefix(f.SystemName, "_") {
			if name, err := demangle.ToString(f.SystemName, options[style]...); err == nil {
				f.Name = name
			}
		}
	}
}

// shorten computes the short names of all frames. Demangling long templates is the most expensive step for an address,
// so it runs once per name and on all processors.
func shorten(all ...[]frame) {
	unique := map[string]*string{}
	var todo []string
	for _, frames := range all {
		for _, f := range frames {
			if unique[f.system] == nil {
				unique[f.system] = new(string)
				todo = append(todo, f.system)
			}
		}
	}
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(todo); i += workers {
				*unique[todo[i]] = Demangle(todo[i], Short)
			}
		})
	}
	group.Wait()
	for _, frames := range all {
		for i := range frames {
			frames[i].short = *unique[frames[i].system]
		}
	}
}

// functions manages the profile's function records, one per name and file.
type functions struct {
	profile *profile.Profile
	known   map[functionKey]*profile.Function
	last    uint64
}

type functionKey struct {
	name, system, file string
	startLine          int
}

func newFunctions(p *profile.Profile) *functions {
	f := &functions{profile: p, known: map[functionKey]*profile.Function{}}
	for _, old := range p.Function {
		f.last = max(f.last, old.ID)
	}
	return f
}

// put appends a frame to a location, after its inner frames.
func (f *functions) put(loc *profile.Location, fr frame) {
	if !fr.named() {
		fr.display = "(unnamed)"
	}
	loc.Line = append(loc.Line, profile.Line{Function: f.get(fr), Line: int64(fr.line)})
	if m := loc.Mapping; m != nil {
		// Left unset for placeholder names, so that pprof can symbolize them on a machine with the right files.
		m.HasFunctions = m.HasFunctions || fr.system != ""
		m.HasFilenames = m.HasFilenames || fr.file != ""
		m.HasLineNumbers = m.HasLineNumbers || fr.line != 0
	}
}

func (f *functions) get(fr frame) *profile.Function {
	name := cmp.Or(fr.display, fr.short)
	key := functionKey{name, fr.system, fr.file, fr.startLine}
	if function := f.known[key]; function != nil {
		return function
	}
	f.last++
	system := fr.system
	if system == "" {
		system = name
	}
	function := &profile.Function{ID: f.last, Name: name, SystemName: system, Filename: fr.file, StartLine: int64(fr.startLine)}
	f.known[key] = function
	f.profile.Function = append(f.profile.Function, function)
	return function
}
