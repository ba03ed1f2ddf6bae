// Package symbolize finds the symbols for the addresses of a profile, from outside the process.
//
// For each file of a profile (module.go) it first looks in its cache by build id (namecache.go). For the missing
// addresses it finds the file that the process has mapped, and its debug information (files.go, debuginfod.go), and
// translates run-time addresses to the file's own (object.go). Its sources are, best first: DWARF with inlined frames
// (dwarf.go, inline.go, lines.go; split.go for separate files); the symbol tables (symtab.go); the unwind table, which
// has at least the start of each function (unwind.go). Code without a file: perfmap.go, vdso.go.
//
// All files are memory-mapped and read only where needed, because debug files of several hundred megabytes are common.
// docs/decisions/0002-symbolizer.md and 0028-names-are-cached.md have the numbers.
package symbolize

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// Result counts the addresses of a profile by the source of their symbols.
type Result struct {
	Debug     int // from debug information
	Symbol    int // from a symbol table
	Unwind    int // only the start of the function is known
	Generated int // code generated at run time, from a perf map
	Unnamed   int // module and offset, or only an address
	// Known counts the addresses that came from the cache, without reading a file.
	Known int
	// Missing lists the modules without a file: none was available, or it was not the one that the process runs.
	Missing []string
	// Notes are one-line messages for the user: why symbols are missing, and the remedy.
	Notes []string
}

// frame is one function at one address. In a list of frames the innermost inlined function comes first.
type frame struct {
	system    string // linkage name, mangled
	short     string // system in the short style
	display   string // shown unchanged if there is no linkage name
	file      string
	line      int
	startLine int
}

func (f frame) named() bool { return f.system != "" || f.display != "" }

// Profile symbolizes all addresses of p that have no symbol yet.
func Profile(p *profile.Profile, files Files) Result {
	files = files.orDefault()
	if files.PID != 0 {
		nameExecutable(p, files.PID)
	}
	modules, outside := split(p)
	s := &session{files: files, store: openStore()}
	if files.PID == 0 && p.TimeNanos != 0 {
		s.taken = time.Unix(0, p.TimeNanos)
	}
	s.resolveAll(modules)
	codes := files.nameGenerated(isUnresolved(modules, outside))

	var result Result
	names := newFunctions(p)
	for _, m := range modules {
		m.put(codes, names, &result)
	}
	unnamed := 0
	for _, loc := range outside {
		if !codes.put(loc, names, &result) {
			unnamed++ // only the address is known
		}
	}
	result.Unnamed += unnamed
	trimDeathStacks(p)
	result.Notes = append(notes(modules), files.generatedNote(unnamed)...)
	result.Notes = append(result.Notes, files.Server.Notes()...)
	for _, note := range result.Notes {
		files.notify(note)
	}
	return result
}

// split groups the unsymbolized addresses by module. outside are those in no module.
func split(p *profile.Profile) (modules []*module, outside []*profile.Location) {
	byFile := map[string]*module{}
	of := map[*profile.Mapping]*module{}
	for i, mapping := range p.Mapping {
		key := mapping.File + "\x00" + mapping.BuildID
		m := byFile[key]
		if m == nil {
			m = &module{file: mapping.File, buildID: strings.ToLower(mapping.BuildID), isMain: i == 0}
			byFile[key] = m
			modules = append(modules, m)
		}
		of[mapping] = m
	}
	for _, loc := range p.Location {
		switch {
		case loc.Mapping == nil || loc.Mapping.File == "":
			if len(loc.Line) == 0 {
				outside = append(outside, loc)
			}
		case !loc.Mapping.HasFunctions && (len(loc.Line) == 0 || isPlaceholder(loc)):
			m := of[loc.Mapping]
			m.locations = append(m.locations, loc)
		}
	}
	return slices.DeleteFunc(modules, func(m *module) bool { return len(m.locations) == 0 }), outside
}

// isUnresolved returns the addresses, sorted, that may be code generated at run time: those outside all modules, and
// those in mappings without a code file.
func isUnresolved(modules []*module, outside []*profile.Location) []uint64 {
	var addresses []uint64
	for _, loc := range outside {
		addresses = append(addresses, loc.Address)
	}
	for _, m := range modules {
		for _, loc := range m.locations {
			if len(m.resolutions) == 0 {
				addresses = append(addresses, loc.Address)
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// isPlaceholder reports whether a location has only a placeholder name from an earlier run. A real symbol may be
// available now.
func isPlaceholder(loc *profile.Location) bool {
	if len(loc.Line) != 1 || loc.Line[0].Function == nil {
		return false
	}
	return strings.HasPrefix(loc.Line[0].Function.Name, filepath.Base(loc.Mapping.File)+"+0x")
}

// hasFile returns false for anonymous memory and similar mappings, in which code is generated at run time, and for
// mappings that only the kernel knows.
func (m *module) hasFile() bool {
	return m.file == vdsoName || !strings.HasPrefix(m.file, "[") && !strings.HasPrefix(m.file, "//anon")
}

// session is the symbolization of one profile.
type session struct {
	files Files
	store *store
	taken time.Time // when the profile was taken; zero for a profile taken just now
}

// resolveAll resolves the modules, a few at a time, because some may have to wait for downloads.
func (s *session) resolveAll(modules []*module) {
	const atOnce = 4
	turn := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for _, m := range modules {
		if !m.hasFile() {
			continue
		}
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			if Safely(func() bool { s.resolve(m); return false }) {
				m.why = "is damaged"
			}
		})
	}
	group.Wait()
}

// put writes the results into the profile.
func (m *module) put(codes generatedCode, names *functions, result *Result) {
	for _, loc := range m.locations {
		address, located := m.at[loc]
		a, found := m.resolutions[address]
		found = found && located
		frames := a.frames
		switch {
		case !found && codes.put(loc, names, result):
			continue
		case !found || a.how == sourceNone:
			m.unnamed++
			result.Unnamed++
			frames = []frame{{display: fmt.Sprintf("%s+%#x", filepath.Base(m.file), loc.Address-loc.Mapping.Start+loc.Mapping.Offset)}}
		case a.how == fromUnwind:
			result.Unwind++
			frames = slices.Clone(frames)
			if len(frames) == 0 {
				frames = make([]frame, 1)
			}
			frames[len(frames)-1].display = fmt.Sprintf("%s+%#x", filepath.Base(m.file), a.start)
		case a.how == fromSymbol:
			result.Symbol++
		case a.how == fromDebug:
			result.Debug++
		}
		if found && !m.fresh[address] {
			result.Known++
		}
		loc.Line = nil
		for _, f := range frames {
			names.put(loc, f)
		}
		loc.Mapping.HasInlineFrames = loc.Mapping.HasInlineFrames || len(frames) > 1
	}
	if m.why != "" && m.unnamed != 0 {
		result.Missing = append(result.Missing, m.file)
	}
}

// notes formats the modules with missing symbols and the reasons, one line per reason.
func notes(modules []*module) []string {
	byReason := map[string][]string{}
	var reasons, lines []string
	for _, m := range modules {
		switch {
		case m.why != "" && m.unnamed != 0:
			if byReason[m.why] == nil {
				reasons = append(reasons, m.why)
			}
			byReason[m.why] = append(byReason[m.why], m.file)
		case m.mismatchWarning != "":
			lines = append(lines, m.file+": "+m.mismatchWarning)
		}
	}
	for _, why := range reasons {
		files, shown := byReason[why], filepath.Base(byReason[why][0])
		const limit = 3
		if more := len(files) - limit; more > 0 {
			files = append(files[:limit:limit], fmt.Sprintf("%d more", more))
		}
		if len(files) > 1 {
			shown = "FILE"
		}
		lines = append(lines, fmt.Sprintf("%s: %s; functions in it are shown as %s+0x… (--debug-dir DIR names a folder with it or its debug information)",
			strings.Join(files, ", "), why, shown))
	}
	return lines
}

// Safely runs work and returns its result, or true if it hit a damaged file: debug/dwarf panics on some of these, and
// an access to a mapped file faults if the file has been truncated.
func Safely(work func() bool) (failed bool) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if recover() != nil {
			failed = true
		}
	}()
	return work()
}
