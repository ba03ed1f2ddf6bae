package symbolize

import (
	"slices"

	"github.com/google/pprof/profile"
)

// source is where the names of an address come from.
type source uint8

const (
	fromNothing source = iota
	fromUnwind         // only the function's start is known
	fromSymbol
	fromDebug
	lastSource = fromDebug
)

// answer is what is known of one address of a file.
type answer struct {
	how    source
	frames []frame
	start  uint64 // of the function, where that is all that is known
}

// module is one file of a profile and the addresses in it that need names.
type module struct {
	file      string
	buildID   string // "" when the profile has none
	isMain    bool
	locations []*profile.Location

	// What resolve finds.
	at      map[*profile.Location]uint64 // the file's own addresses
	answers map[uint64]answer            // of those
	fresh   map[uint64]bool              // those of them that were not known before
	why     string                       // the file could not be used
	doubt   string                       // it was used, but may not be the one that ran
	unnamed int                          // how many of its locations got no name
}

// resolve looks a module's addresses up: in what is remembered of the file, and for what is missing there, in the file.
func (s *session) resolve(m *module) {
	m.fresh = map[uint64]bool{}
	key := m.buildID
	known := s.store.load(key)
	if known != nil && known.complete() && len(m.translate(known)) == 0 {
		m.take(known)
		return
	}
	found := s.files.open(m)
	defer found.close()
	if found.any() == nil {
		m.why = found.why
		if known != nil {
			m.translate(known)
			m.take(known)
		}
		return
	}
	if key == "" {
		key = found.key()
		known = s.store.load(key)
		m.doubt = found.doubt(s.taken)
	}
	if known != nil && !s.stillBest(known, found) {
		known = nil
	}
	if known == nil {
		known = &names{answers: map[uint64]answer{}}
	}
	if len(known.answers) == 0 || known.segments.debugOnly {
		known.segments = found.any().segments()
	}
	if missing := m.translate(known); len(missing) != 0 {
		s.lookUp(missing, known, found)
		for _, address := range missing {
			m.fresh[address] = true
		}
	}
	m.take(known)
	s.store.save(key, known, m.answers)
}

// translate finds the file's own addresses, and returns those of which nothing is known, sorted.
func (m *module) translate(known *names) (missing []uint64) {
	m.at = map[*profile.Location]uint64{}
	for _, loc := range m.locations {
		address, ok := known.segments.translate(loc.Mapping, loc.Address)
		if !ok {
			continue
		}
		m.at[loc] = address
		if _, ok := known.answers[address]; !ok {
			missing = append(missing, address)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// take makes what is known of the module's addresses its answers.
func (m *module) take(known *names) {
	m.answers = map[uint64]answer{}
	for _, address := range m.at {
		if a, ok := known.answers[address]; ok {
			m.answers[address] = a
		}
	}
}

// lookUp adds to known what the files say of addresses (sorted).
func (s *session) lookUp(addresses []uint64, known *names, found *binaries) {
	known.changed = true
	symbols := findSymbols(addresses, found.main, found.separate)
	inlined := map[uint64][]frame{}
	// A damaged debug section must not take the symbol table's names away.
	known.damaged = Safely(func() bool { return s.files.readDebug(addresses, found, symbols, inlined, known) })
	unwind := found.main.unwindTable()
	var all [][]frame
	for _, address := range addresses {
		a := choose(inlined[address], symbols[address], unwind, address)
		known.answers[address] = a
		all = append(all, a.frames)
	}
	shorten(all...)
}

// choose makes the best of what the sources say of an address.
func choose(frames []frame, symbol string, unwind unwindTable, address uint64) answer {
	switch {
	case len(frames) != 0 && frames[len(frames)-1].named():
		return answer{how: fromDebug, frames: frames}
	case symbol != "" && len(frames) != 0: // lines, but no function: an assembly file
		frames[len(frames)-1].system = symbol
		return answer{how: fromSymbol, frames: frames}
	case symbol != "":
		return answer{how: fromSymbol, frames: []frame{{system: symbol}}}
	}
	if start, ok := unwind.functionStart(address); ok {
		return answer{how: fromUnwind, frames: frames, start: start}
	}
	return answer{}
}
