// Package symbolize gives names to the addresses of a profile, from outside the process it was taken from.
//
// For each mapping it finds the file the process really has mapped (files.go), translates run-time addresses to the
// file's own (object.go), and asks, best source first: DWARF, with inlined frames (dwarf.go, inline.go, lines.go);
// the symbol tables (symtab.go); the unwind table, which at least tells where a function starts (unwind.go).
// Everything is read through a memory map and only where an address of the profile points, because debug files of
// several hundred megabytes are common; docs/decisions/0002-symbolizer.md has the numbers.
package symbolize

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Result counts how the addresses of a profile got their names.
type Result struct {
	Debug   int // from debug information
	Symbol  int // from a symbol table
	Unwind  int // only the function's start is known
	Unnamed int // module and offset, or nothing at all
	// Missing lists the modules whose file could not be had, or was not the one that the process runs.
	Missing []string
}

// frame is one function at one address; the innermost inlined one comes first in a list of them.
type frame struct {
	system    string // as the linker knows it; mangled
	display   string // to be shown as it is; empty: demangle system
	file      string
	line      int
	startLine int
}

// Profile names all addresses of p that have no name yet.
func Profile(p *profile.Profile, files Files) Result {
	byMapping := map[*profile.Mapping][]*profile.Location{}
	for _, loc := range p.Location {
		if loc.Mapping != nil && len(loc.Line) == 0 && !loc.Mapping.HasFunctions {
			byMapping[loc.Mapping] = append(byMapping[loc.Mapping], loc)
		}
	}
	var result Result
	names := newFunctions(p)
	for i, m := range p.Mapping {
		if len(byMapping[m]) != 0 {
			mapping(m, i == 0, byMapping[m], files, names, &result)
		}
	}
	return result
}

// mapping names the addresses of one mapping.
func mapping(m *profile.Mapping, isMain bool, locs []*profile.Location, files Files, names *functions, result *Result) {
	found := map[uint64][]frame{} // by run-time address
	if hasFile(m) {
		missing := safely(func() bool { return !lookUp(m, isMain, locs, files, found, result) })
		if missing {
			result.Missing = append(result.Missing, m.File)
		}
	}
	for _, loc := range locs {
		frames := found[loc.Address]
		if len(frames) == 0 {
			result.Unnamed++
			if m.File == "" {
				continue // code made at run time: the address is all there is
			}
			frames = []frame{{display: fmt.Sprintf("%s+%#x", filepath.Base(m.File), loc.Address-m.Start+m.Offset)}}
		}
		for _, f := range frames {
			if !f.named() {
				f.display = "(unnamed)"
			}
			loc.Line = append(loc.Line, profile.Line{Function: names.get(f), Line: int64(f.line)})
			// Left unset for made-up names, so that pprof on a machine with the right files may still do better.
			m.HasFunctions = m.HasFunctions || f.system != ""
			m.HasFilenames = m.HasFilenames || f.file != ""
			m.HasLineNumbers = m.HasLineNumbers || f.line != 0
		}
		m.HasInlineFrames = m.HasInlineFrames || len(frames) > 1
	}
}

// lookUp fills found with what the mapping's files say; false when there is no such file.
func lookUp(m *profile.Mapping, isMain bool, locs []*profile.Location, files Files, found map[uint64][]frame, result *Result) bool {
	main, separate := files.open(m, isMain)
	if main == nil && separate == nil {
		return false
	}
	defer main.close()
	defer separate.close()

	toVirtual := main.or(separate).translator(m)
	runtimeOf := map[uint64]uint64{}
	var addresses []uint64
	for _, loc := range locs {
		if virtual, ok := toVirtual(loc.Address); ok {
			runtimeOf[virtual] = loc.Address
			addresses = append(addresses, virtual)
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)

	symbols := findSymbols(addresses, main, separate)
	inlined := map[uint64][]frame{}
	// A damaged debug section must not take the symbol table's names away.
	safely(func() bool {
		readDebug(addresses, files, separate.or(main), symbols, inlined)
		return false
	})
	unwind := main.unwindTable()
	for _, virtual := range addresses {
		frames := inlined[virtual]
		symbol, hasSymbol := symbols[virtual]
		switch {
		case len(frames) != 0 && frames[len(frames)-1].named():
			result.Debug++
		case hasSymbol && len(frames) != 0: // lines, but no function: an assembly file
			frames[len(frames)-1].system = symbol
			result.Symbol++
		case hasSymbol:
			frames = []frame{{system: symbol}}
			result.Symbol++
		default:
			start, ok := unwind.functionStart(virtual)
			if !ok {
				continue
			}
			if len(frames) == 0 {
				frames = make([]frame, 1)
			}
			frames[len(frames)-1].display = fmt.Sprintf("%s+%#x", filepath.Base(m.File), start)
			result.Unwind++
		}
		found[runtimeOf[virtual]] = frames
	}
	return true
}

func (f frame) named() bool { return f.system != "" || f.display != "" }

// safely runs work and returns its answer, or true when it met a damaged file: debug/dwarf panics on some of those,
// and a file that somebody truncates under our memory map faults.
func safely(work func() bool) (failed bool) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if recover() != nil {
			failed = true
		}
	}()
	return work()
}

// hasFile is false for the kernel's own mappings and for memory without a file, where code is made at run time.
func hasFile(m *profile.Mapping) bool {
	return m.File != "" && !strings.HasPrefix(m.File, "[") && !strings.HasPrefix(m.File, "//anon")
}
