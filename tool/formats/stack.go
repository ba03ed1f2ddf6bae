package formats

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// frame is one function of a stack. Inlined functions are separate frames.
type frame struct {
	function string
	file     string // of the source, "" if unknown
	line     int64
	start    int64  // the function's first line, 0 if unknown
	module   string // the program or library
	address  uint64 // 0 if the profile has none
}

// stackOf lists the functions of a sample, innermost first. It never returns an empty list.
func stackOf(s *profile.Sample) []frame {
	var stack []frame
	for _, loc := range s.Location {
		module := ""
		if loc.Mapping != nil {
			module = loc.Mapping.File
		}
		for _, line := range loc.Line {
			if line.Function != nil {
				stack = append(stack, frame{line.Function.Name, line.Function.Filename, line.Line, line.Function.StartLine, module, loc.Address})
			}
		}
		if len(loc.Line) == 0 {
			stack = append(stack, frame{function: fmt.Sprintf("%#x", loc.Address), module: module, address: loc.Address})
		}
	}
	if len(stack) == 0 {
		stack = append(stack, frame{function: "(no stack)"})
	}
	return stack
}

// rootFirst joins the names of a stack, outermost first, as flame graphs expect.
func rootFirst(stack []frame) string {
	names := make([]string, len(stack))
	for i, f := range stack {
		names[len(stack)-1-i] = strings.NewReplacer(";", ":", "\n", " ", "\r", " ").Replace(f.function)
	}
	return strings.Join(names, ";")
}

// allocatorLibrary matches the shared libraries of allocators that provide malloc.
var allocatorLibrary = regexp.MustCompile(`^lib(jemalloc|tcmalloc|seemalloc)[^/]*\.so`)

// trimAllocator removes the innermost frames that lie in an allocator's library from the stacks. It does not go by
// function names, because most of these functions have no symbols in the libraries of distributions.
func trimAllocator(p *profile.Profile) {
	inside := map[*profile.Mapping]bool{}
	for _, m := range p.Mapping {
		inside[m] = allocatorLibrary.MatchString(filepath.Base(m.File))
	}
	for _, sample := range p.Sample {
		stack := sample.Location
		for len(stack) > 1 && inside[stack[0].Mapping] {
			stack = stack[1:]
		}
		sample.Location = stack
	}
}

// pair holds the indices of two sample types that describe the same blocks, by number and by bytes. -1: missing.
type pair struct{ objects, bytes int }

func (p pair) ok() bool { return p.objects >= 0 && p.bytes >= 0 }

// pairOf finds the pair of the kind inuse, alloc or peak. "" means plain objects and space.
func pairOf(p *profile.Profile, kind string) pair {
	found := pair{-1, -1}
	if kind != "" {
		kind += "_"
	}
	for i, t := range p.SampleType {
		switch t.Type {
		case kind + "objects":
			found.objects = i
		case kind + "space":
			found.bytes = i
		}
	}
	return found
}

// pairAt returns the pair that contains the sample type at index.
func pairAt(p *profile.Profile, index int) pair {
	name := p.SampleType[index].Type
	for _, suffix := range []string{"objects", "space"} {
		if kind, ok := strings.CutSuffix(name, suffix); ok {
			return pairOf(p, strings.TrimSuffix(kind, "_"))
		}
	}
	return pair{-1, -1}
}

// typeNames lists the sample types for messages.
func typeNames(p *profile.Profile) string {
	var names []string
	for _, t := range p.SampleType {
		names = append(names, t.Type)
	}
	return strings.Join(names, ", ")
}

// command returns the program of the profile.
func command(p *profile.Profile, o Options) string {
	switch {
	case o.Command != "":
		return o.Command
	case len(p.Mapping) > 0 && p.Mapping[0].File != "":
		return p.Mapping[0].File
	}
	return filepath.Base(o.Source)
}

// defaultIndex returns the sample type that a viewer should show first.
func defaultIndex(p *profile.Profile) int {
	for i, t := range p.SampleType {
		if t.Type == p.DefaultSampleType {
			return i
		}
	}
	return len(p.SampleType) - 1
}
