package symbolize

import (
	"debug/dwarf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// With -gsplit-dwarf a program contains only a skeleton of each unit: its code ranges, its line table, and the name of
// a .dwo file. The .dwo file has the rest, which refers to the program's addresses by index. `dwp` combines the .dwo
// files of a program in a package file, PROGRAM.dwp (package.go). Both are supported for DWARF 5. The earlier GNU
// extension of DWARF 4 is not: such programs get lines, and names from the symbol table.

// splitFiles opens the split units of one program. Safe for concurrent use.
type splitFiles struct {
	files   Files
	program *binaries
	order   binary.ByteOrder
	address []byte // .debug_addr

	mutex      sync.Mutex
	searched   bool // the package file has been searched
	dwp        *packageFile
	anyMissing bool     // some unit was not found
	missing    []string // paths without a file; a file that appears there later provides symbols
}

// splitUnit is the part of a unit in its .dwo file.
type splitUnit struct {
	*debugInfo
	root   *dwarf.Entry
	object *object // must be closed; nil if it is in a package file
}

// skeleton is the part of a split unit in the program, to which the .dwo file refers.
type skeleton struct {
	base     uint64 // base address of range lists
	address  []byte // the unit's part of .debug_addr
	rnglists []byte // of the split unit, without its header
}

// splitSections are the sections of one .dwo file, or the unit's contributions in a package file.
type splitSections struct {
	info, abbrev, str, strOffsets, rnglists []byte
}

// open returns the split unit for a skeleton, or nil if it is not found.
func (s *splitFiles) open(u unit) *splitUnit {
	name, ok := u.root.Val(dwarf.AttrDwoName).(string)
	if !ok || u.id == 0 {
		return nil
	}
	if dwp := s.openPackage(); dwp != nil {
		if sections := dwp.find(u.id); sections != nil {
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
	s.addMissing(paths)
	return nil
}

// candidates returns the possible paths of a .dwo file: the compiler's output path, in the target's file system and in
// ours.
func (s *splitFiles) candidates(u unit, name string) []string {
	path := name
	if dir, ok := u.root.Val(dwarf.AttrCompDir).(string); ok && !filepath.IsAbs(name) {
		path = filepath.Join(dir, name)
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

// addMissing records paths at which a file is missing. A limited number is sufficient to notice later that files have
// appeared.
func (s *splitFiles) addMissing(paths []string) {
	const limit = 64
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.anyMissing = true; len(s.missing) < limit {
		s.missing = append(s.missing, paths...)
	}
}

// newSplitUnit parses the sections. It returns nil if they do not belong to the skeleton.
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
	skeleton := &skeleton{base: low, address: bytesAfter(s.address, base), rnglists: bytesAfter(sections.rnglists, rnglistsHeader)}
	// A split unit has no base attributes: its parts start at the beginning of their sections.
	for name, section := range map[string][]byte{
		".debug_addr": skeleton.address, ".debug_str_offsets": bytesAfter(sections.strOffsets, strOffsetsHeader), ".debug_rnglists": skeleton.rnglists,
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

func bytesAfter(data []byte, offset int64) []byte {
	if offset < 0 || offset > int64(len(data)) {
		return nil
	}
	return data[offset:]
}

func (s *splitFiles) close() {
	if s.dwp != nil {
		s.dwp.object.close()
	}
}

// openPackage finds the package file of the program's split units. It searches only once.
func (s *splitFiles) openPackage() *packageFile {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.searched {
		return s.dwp
	}
	s.searched = true
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
			if s.dwp = newPackageFile(o); s.dwp != nil {
				return s.dwp
			}
			o.close()
		}
	}
	s.missing = append(s.missing, paths...)
	return nil
}

// missingPaths returns the paths at which a new file would provide symbols. It returns none if no split unit was
// missing.
func (s *splitFiles) missingPaths() []string {
	if !s.anyMissing {
		return nil
	}
	return slices.DeleteFunc(s.missing, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil // exists, but does not match
	})
}

// ranges reads the range list of an entry in a split unit. debug/dwarf does not have the base address, which is only in
// the skeleton.
func (k *skeleton) ranges(entry *dwarf.Entry, order binary.ByteOrder) [][2]uint64 {
	const rnglistsHeader = 12
	var at int64
	switch v := entry.Val(dwarf.AttrRanges).(type) {
	case uint64: // an index into the table, which debug/dwarf has resolved
		at = int64(v)
	case int64: // an offset into the section
		at = v - rnglistsHeader
	default:
		return nil
	}
	r := &listReader{data: bytesAfter(k.rnglists, at), order: order, address: k.address}
	return r.ranges(k.base)
}

// listReader reads a DWARF 5 range list (section 2.17.3).
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

// indexed reads an address by its index.
func (r *listReader) indexed() uint64 {
	const bytes = 8
	n := r.number()
	if n >= uint64(len(r.address)/bytes) {
		r.data, r.bad = nil, true
		return 0
	}
	return r.order.Uint64(r.address[n*bytes:])
}

// The kinds of range list entries.
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
