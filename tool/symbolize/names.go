package symbolize

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/ianlancetaylor/demangle"
)

// Style says how much of a C++ or Rust name is shown.
type Style string

// The styles, from short to long.
const (
	Short     Style = "short"     // std::vector::push_back, as pprof does by default
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

// maxName bounds what is demangled of one name (2^n characters): some templates unfold into megabytes.
const maxName = 14

var options = map[Style][]demangle.Option{
	Short:     {demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams, demangle.MaxLength(maxName)},
	Templates: {demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(maxName)},
	Full:      {demangle.NoClones, demangle.MaxLength(maxName)},
}

// A compiler splits and specialises functions; to a reader foo.cold and foo.constprop.0 are foo.
var cloneSuffix = regexp.MustCompile(`(\.(constprop|isra|part|cold|lto_priv|llvm|localalias)(\.\d+)*)+$`)

// Demangle turns a linker's name into one for people.
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

// Rename gives all functions of p whose linker's name is known their name in another style.
func Rename(p *profile.Profile, style Style) {
	for _, f := range p.Function {
		if strings.HasPrefix(f.SystemName, "_") {
			if name, err := demangle.ToString(f.SystemName, options[style]...); err == nil {
				f.Name = name
			}
		}
	}
}

// functions hands out the profile's function records, one for each name and file.
type functions struct {
	profile *profile.Profile
	known   map[functionKey]*profile.Function
	last    uint64
	short   map[string]string // demangled names
}

type functionKey struct {
	name, system, file string
	startLine          int
}

func newFunctions(p *profile.Profile) *functions {
	f := &functions{profile: p, known: map[functionKey]*profile.Function{}, short: map[string]string{}}
	for _, old := range p.Function {
		f.last = max(f.last, old.ID)
	}
	return f
}

func (f *functions) get(fr frame) *profile.Function {
	name := fr.display
	if name == "" {
		var ok bool
		if name, ok = f.short[fr.system]; !ok {
			name = Demangle(fr.system, Short)
			f.short[fr.system] = name
		}
	}
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
