package symbolize

import (
	"slices"

	"github.com/google/pprof/profile"
)

// source is the origin of the symbol of an address.
type source uint8

const (
	sourceNone source = iota
	fromUnwind        // only the function's start is known
	fromSymbol
	fromDebug
	lastSource = fromDebug
)

// resolution is the result for one address of a file.
type resolution struct {
	how    source
	frames []frame
	start  uint64 // of the function, if nothing else is known
}

// module is one file of a profile, with its unsymbolized addresses.
type module struct {
	file      string
	buildID   string // "" if the profile has none
	isMain    bool
	locations []*profile.Location

	// The result of resolve.
	at              map[*profile.Location]uint64 // the file's own addresses
	resolutions     map[uint64]resolution        // keyed by these addresses
	fresh           map[uint64]bool              // the addresses that were not in the cache
	why             string                       // why the file could not be used
	mismatchWarning string                       // why the file that was used may not be the one that ran
	unnamed         int                          // number of its locations without a symbol
}

// resolve finds the symbols of a module's addresses: first in the cache, then for the missing ones in the file.
func (s *session) resolve(m *module) {
	m.fresh = map[uint64]bool{}
	key := m.buildID
	known := s.store.load(key)
	if known != nil && known.complete() && len(m.translate(known)) == 0 {
		m.useCached(known)
		return
	}
	found := s.files.open(m)
	defer found.close()
	if found.any() == nil {
		m.why = found.why
		if known != nil {
			m.translate(known)
			m.useCached(known)
		}
		return
	}
	if key == "" {
		key = found.key()
		known = s.store.load(key)
		m.mismatchWarning = found.mismatchWarning(s.taken)
	}
	if known != nil && !s.isCurrent(known, found) {
		known = nil
	}
	if known == nil {
		known = &names{resolutions: map[uint64]resolution{}}
	}
	if len(known.resolutions) == 0 || known.segments.debugOnly {
		known.segments = found.any().segments()
	}
	if missing := m.translate(known); len(missing) != 0 {
		s.lookUp(missing, known, found)
		for _, address := range missing {
			m.fresh[address] = true
		}
	}
	m.useCached(known)
	s.store.save(key, known, m.resolutions)
}

// translate computes the file's own addresses. It returns those that are not in known, sorted.
func (m *module) translate(known *names) (missing []uint64) {
	m.at = map[*profile.Location]uint64{}
	for _, loc := range m.locations {
		address, ok := known.segments.translate(loc.Mapping, loc.Address)
		if !ok {
			continue
		}
		m.at[loc] = address
		if _, ok := known.resolutions[address]; !ok {
			missing = append(missing, address)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// useCached copies the answers for the module's addresses from known.
func (m *module) useCached(known *names) {
	m.resolutions = map[uint64]resolution{}
	for _, address := range m.at {
		if a, ok := known.resolutions[address]; ok {
			m.resolutions[address] = a
		}
	}
}

// lookUp adds the results for addresses (sorted) from the files to known.
func (s *session) lookUp(addresses []uint64, known *names, found *binaries) {
	known.changed = true
	symbols := findSymbols(addresses, withMiniDebug(found.main, found.separate)...)
	inlined := map[uint64][]frame{}
	// A damaged debug section must not affect the names from the symbol table.
	known.damaged = Safely(func() bool { return s.files.readDebug(addresses, found, symbols, inlined, known) })
	unwind := found.main.unwindTable()
	var all [][]frame
	for _, address := range addresses {
		a := choose(inlined[address], symbols[address], unwind, address)
		known.resolutions[address] = a
		all = append(all, a.frames)
	}
	shorten(all...)
}

// choose selects the best of the sources' results for an address.
func choose(frames []frame, symbol string, unwind unwindTable, address uint64) resolution {
	switch {
	case len(frames) != 0 && frames[len(frames)-1].named():
		return resolution{how: fromDebug, frames: frames}
	case symbol != "" && len(frames) != 0: // lines without a function: an assembly file
		frames[len(frames)-1].system = symbol
		return resolution{how: fromSymbol, frames: frames}
	case symbol != "":
		return resolution{how: fromSymbol, frames: []frame{{system: symbol}}}
	}
	if start, ok := unwind.functionStart(address); ok {
		return resolution{how: fromUnwind, frames: frames, start: start}
	}
	return resolution{}
}
