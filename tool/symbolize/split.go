package symbolize

import (
	"debug/dwarf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// With -gsplit-dwarf a program has of each unit only a skeleton: where its code is, its line table, and the name of
// a .dwo file with all else, which refers to the program's addresses by number. `dwp` packs the .dwo files of a program
// into one, PROGRAM.dwp (package.go). Both are read as of DWARF 5; the extension of DWARF 4 that GNU had before is not:
// such programs have lines and the symbol table's names.

// splitFiles opens the split units of one program. Safe for concurrent use.
type splitFiles struct {
	files   Files
	program *binaries
	order   binary.ByteOrder
	address []byte // .debug_addr

	mutex   sync.Mutex
	looked  bool // for a package
	packed  *splitPackage
	lacking bool     // a unit was not found
	missing []string // where nothing was found; what appears there later will be of use
}

// splitUnit is the part of a unit that its .dwo file holds.
type splitUnit struct {
	*debugInfo
	root   *dwarf.Entry
	object *object // to be closed; nil if it is a package's
}

// skeleton is what the program knows of a split unit, and its file refers to.
type skeleton struct {
	base     uint64 // for range lists
	address  []byte // its part of .debug_addr
	rnglists []byte // of the split unit, without the header
}

// splitSections are the sections of one .dwo file, or its shares of a package's.
type splitSections struct {
	info, abbrev, str, strOffsets, rnglists []byte
}

// open returns the split unit that belongs to a skeleton, nil when there is none.
func (s *splitFiles) open(u unit) *splitUnit {
	name, ok := u.root.Val(dwarf.AttrDwoName).(string)
	if !ok || u.id == 0 {
		return nil
	}
	if packed := s.pack(); packed != nil {
		if sections := packed.find(u.id); sections != nil {
			if split := s.newSplitUnit(u, *sections); split != nil {
				return split
			}
		}
	}
	paths := s.candidates(u, name)
	for _, path := range paths {
		o := openObject(path)
		if o == nil {
			continue
		}
		split := s.newSplitUnit(u, splitSections{o.section(".debug_info.dwo"), o.section(".debug_abbrev.dwo"),
			o.section(".debug_str.dwo"), o.section(".debug_str_offsets.dwo"), o.section(".debug_rnglists.dwo")})
		if split != nil {
			split.object = o
			return split
		}
		o.close()
	}
	s.miss(paths)
	return nil
}

// candidates are the places of a .dwo file: where the compiler wrote it, as the target sees that and as we do.
func (s *splitFiles) candidates(u unit, name string) []string {
	path := name
	if folder, ok := u.root.Val(dwarf.AttrCompDir).(string); ok && !filepath.IsAbs(name) {
		path = filepath.Join(folder, name)
	}
	var paths []string
	for _, root := range s.files.roots() {
		paths = append(paths, filepath.Join(root, path))
	}
	for _, dir := range s.files.DebugDirs {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, filepath.Base(name)))
	}
	return paths
}

// miss notes where a file was looked for. A few are enough to notice that they have come.
func (s *splitFiles) miss(paths []string) {
	const most = 64
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lacking = true; len(s.missing) < most {
		s.missing = append(s.missing, paths...)
	}
}

// newSplitUnit reads the sections; nil when they are not the skeleton's.
func (s *splitFiles) newSplitUnit(u unit, sections splitSections) *splitUnit {
	const strOffsetsHeader, rnglistsHeader = 8, 12
	if len(sections.info) == 0 {
		return nil
	}
	roots := unitRoots(sections.info, s.order)
	at := slices.IndexFunc(roots, func(r unitRoot) bool { return r.kind == unitSplitCompile && r.id == u.id })
	if at < 0 {
		return nil
	}
	data, err := dwarf.New(sections.abbrev, nil, nil, sections.info, nil, nil, nil, sections.str)
	if err != nil {
		return nil
	}
	base, _ := u.root.Val(dwarf.AttrAddrBase).(int64)
	low, _ := u.root.Val(dwarf.AttrLowpc).(uint64)
	skeleton := &skeleton{base: low, address: behind(s.address, base), rnglists: behind(sections.rnglists, rnglistsHeader)}
	// A split unit says nothing of bases: its parts begin at their sections' beginning.
	for name, section := range map[string][]byte{
		".debug_addr": skeleton.address, ".debug_str_offsets": behind(sections.strOffsets, strOffsetsHeader), ".debug_rnglists": skeleton.rnglists,
	} {
		if data.AddSection(name, section) != nil {
			return nil
		}
	}
	info := &debugInfo{data: data, units: roots, skeleton: skeleton, order: s.order, names: map[dwarf.Offset]function{}}
	reader := data.Reader()
	reader.Seek(roots[at].root)
	root, err := reader.Next()
	if err != nil || root == nil {
		return nil
	}
	return &splitUnit{debugInfo: info, root: root}
}

func behind(data []byte, offset int64) []byte {
	if offset < 0 || offset > int64(len(data)) {
		return nil
	}
	return data[offset:]
}

func (s *splitFiles) close() {
	if s.packed != nil {
		s.packed.object.close()
	}
}

// pack finds the package of the program's split units, once.
func (s *splitFiles) pack() *splitPackage {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.looked {
		return s.packed
	}
	s.looked = true
	var paths []string
	for _, o := range []*object{s.program.main, s.program.separate} {
		if o != nil {
			paths = append(paths, o.path+".dwp")
		}
	}
	for _, root := range s.files.roots() {
		paths = append(paths, filepath.Join(root, s.program.name+".dwp"))
	}
	for _, dir := range s.files.DebugDirs {
		paths = append(paths, filepath.Join(dir, filepath.Base(s.program.name)+".dwp"))
	}
	for _, path := range paths {
		if o := openObject(path); o != nil {
			if s.packed = newSplitPackage(o); s.packed != nil {
				return s.packed
			}
			o.close()
		}
	}
	s.missing = append(s.missing, paths...)
	return nil
}

// lacks are the paths at which something that appears would bring names; none if no split unit was missing.
func (s *splitFiles) lacks() []string {
	if !s.lacking {
		return nil
	}
	return slices.DeleteFunc(s.missing, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil // it is there, and no help
	})
}

// ranges reads the range list of a split unit's entry. debug/dwarf does not know the base address, which only the
// skeleton tells.
func (k *skeleton) ranges(entry *dwarf.Entry, order binary.ByteOrder) [][2]uint64 {
	const rnglistsHeader = 12
	var at int64
	switch v := entry.Val(dwarf.AttrRanges).(type) {
	case uint64: // a number in the table, which debug/dwarf has looked up
		at = int64(v)
	case int64: // an offset into the section
		at = v - rnglistsHeader
	default:
		return nil
	}
	r := &listReader{data: behind(k.rnglists, at), order: order, address: k.address}
	return r.ranges(k.base)
}

// listReader reads a range list of DWARF 5 (section 2.17.3).
type listReader struct {
	data    []byte
	order   binary.ByteOrder
	address []byte
	bad     bool
}

func (r *listReader) number() uint64 {
	n, used := binary.Uvarint(r.data)
	if used <= 0 {
		r.data, r.bad = nil, true
		return 0
	}
	r.data = r.data[used:]
	return n
}

func (r *listReader) word() uint64 {
	const bytes = 8
	if len(r.data) < bytes {
		r.data, r.bad = nil, true
		return 0
	}
	word := r.order.Uint64(r.data)
	r.data = r.data[bytes:]
	return word
}

// indexed reads an address by its number.
func (r *listReader) indexed() uint64 {
	const bytes = 8
	n := r.number()
	if n >= uint64(len(r.address)/bytes) {
		r.data, r.bad = nil, true
		return 0
	}
	return r.order.Uint64(r.address[n*bytes:])
}

// The kinds of entries.
const (
	endOfList = iota
	baseAddressx
	startxEndx
	startxLength
	offsetPair
	baseAddress
	startEnd
	startLength
)

func (r *listReader) ranges(base uint64) [][2]uint64 {
	var list [][2]uint64
	for len(r.data) > 0 {
		kind := r.data[0]
		r.data = r.data[1:]
		var low, high uint64
		switch kind {
		case endOfList:
			return list
		case baseAddressx:
			base = r.indexed()
			continue
		case baseAddress:
			base = r.word()
			continue
		case startxEndx:
			low, high = r.indexed(), r.indexed()
		case startxLength:
			low = r.indexed()
			high = low + r.number()
		case offsetPair:
			low, high = base+r.number(), base+r.number()
		case startEnd:
			low, high = r.word(), r.word()
		case startLength:
			low = r.word()
			high = low + r.number()
		default:
			return list
		}
		if r.bad {
			break
		}
		list = append(list, [2]uint64{low, high})
	}
	return list
}
