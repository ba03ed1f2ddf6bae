// Package symbolize gives names to the addresses of a profile, from outside the process it was taken from.
//
// For each file of a profile (module.go) it asks what is known of it by its build id (remembered.go). For what is not,
// it finds the file the process really has mapped, and its debug information (files.go, debuginfod.go), translates
// run-time addresses to the file's own (object.go), and asks, best source first: DWARF, with inlined frames (dwarf.go,
// inline.go, lines.go; split.go where it is in files of its own); the symbol tables (symtab.go); the unwind table, which
// at least tells where a function starts (unwind.go). Code without a file: perfmap.go, vdso.go.
// Everything is read through a memory map and only where an address of the profile points, because debug files of
// several hundred megabytes are common; docs/decisions/0002-symbolizer.md and 0028-names-are-kept.md have the numbers.
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

// Result counts how the addresses of a profile got their names.
type Result struct {
	Debug     int // from debug information
	Symbol    int // from a symbol table
	Unwind    int // only the function's start is known
	Generated int // code made at run time, from a perf map
	Unnamed   int // module and offset, or nothing at all
	// Known counts those among them that were known from an earlier time: no file was read for them.
	Known int
	// Missing lists the modules whose file could not be had, or was not the one that the process runs.
	Missing []string
	// Notes are for people, a line each: why names are missing, and what would bring them.
	Notes []string
}

// frame is one function at one address; the innermost inlined one comes first in a list of them.
type frame struct {
	system    string // as the linker knows it; mangled
	short     string // system in the short style
	display   string // to be shown as it is, where there is no linker's name
	file      string
	line      int
	startLine int
}

func (f frame) named() bool { return f.system != "" || f.display != "" }

// Profile names all addresses of p that have no name yet.
func Profile(p *profile.Profile, files Files) Result {
	files = files.orDefault()
	modules, outside := split(p)
	s := &session{files: files, store: openStore()}
	if files.PID == 0 && p.TimeNanos != 0 {
		s.taken = time.Unix(0, p.TimeNanos)
	}
	s.resolveAll(modules)
	codes := files.nameGenerated(unanswered(modules, outside))

	var result Result
	names := newFunctions(p)
	for _, m := range modules {
		m.put(codes, names, &result)
	}
	unnamed := 0
	for _, loc := range outside {
		if !codes.put(loc, names, &result) {
			unnamed++ // the address is all there is
		}
	}
	result.Unnamed += unnamed
	trimJoined(p)
	result.Notes = append(notes(modules), files.generatedNote(unnamed)...)
	result.Notes = append(result.Notes, files.Server.Notes()...)
	for _, note := range result.Notes {
		files.say(note)
	}
	return result
}

// split sorts the addresses without a name by module; outside are those that lie in none.
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
		case !loc.Mapping.HasFunctions && (len(loc.Line) == 0 || madeUp(loc)):
			m := of[loc.Mapping]
			m.locations = append(m.locations, loc)
		}
	}
	return slices.DeleteFunc(modules, func(m *module) bool { return len(m.locations) == 0 }), outside
}

// unanswered are the addresses, sorted, that may be code made at run time: those outside of all modules, and in what is
// mapped but no file of code.
func unanswered(modules []*module, outside []*profile.Location) []uint64 {
	var addresses []uint64
	for _, loc := range outside {
		addresses = append(addresses, loc.Address)
	}
	for _, m := range modules {
		for _, loc := range m.locations {
			if len(m.answers) == 0 {
				addresses = append(addresses, loc.Address)
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// madeUp says whether a location has nothing but a name of ours that stands for none, from an earlier time: now there
// may be a better one.
func madeUp(loc *profile.Location) bool {
	if len(loc.Line) != 1 || loc.Line[0].Function == nil {
		return false
	}
	return strings.HasPrefix(loc.Line[0].Function.Name, filepath.Base(loc.Mapping.File)+"+0x")
}

// hasFile is false for memory without a file or something like it, where code is made at run time, and for what the
// kernel alone knows.
func (m *module) hasFile() bool {
	return m.file == vdsoName || !strings.HasPrefix(m.file, "[") && !strings.HasPrefix(m.file, "//anon")
}

// session is the work on one profile.
type session struct {
	files Files
	store *store
	taken time.Time // when the profile was; zero when it is of now
}

// resolveAll looks the modules' addresses up, a few modules at a time: some may have to be waited for.
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

// put writes what was found into the profile.
func (m *module) put(codes generatedCode, names *functions, result *Result) {
	for _, loc := range m.locations {
		address, located := m.at[loc]
		a, found := m.answers[address]
		found = found && located
		frames := a.frames
		switch {
		case !found && codes.put(loc, names, result):
			continue
		case !found || a.how == fromNothing:
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

// notes says which modules' names are missing, and why: a line for each reason.
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
		case m.doubt != "":
			lines = append(lines, m.file+": "+m.doubt)
		}
	}
	for _, why := range reasons {
		files, shown := byReason[why], filepath.Base(byReason[why][0])
		const most = 3
		if more := len(files) - most; more > 0 {
			files = append(files[:most:most], fmt.Sprintf("%d more", more))
		}
		if len(files) > 1 {
			shown = "FILE"
		}
		lines = append(lines, fmt.Sprintf("%s: %s; functions in it are shown as %s+0x… (--debug-dir DIR names a folder with it or its debug information)",
			strings.Join(files, ", "), why, shown))
	}
	return lines
}

// Safely runs work and returns its answer, or true when it met a damaged file: debug/dwarf panics on some of those,
// and a file that somebody truncates under our memory map faults.
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
