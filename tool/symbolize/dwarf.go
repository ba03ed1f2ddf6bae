package symbolize

import (
	"debug/dwarf"
	"encoding/binary"
	"maps"
	"runtime"
	"slices"
	"sort"
	"sync"
)

// debugInfo is the DWARF of one object. Only units that contain requested addresses are read. After the units have been
// found, data shared between workers does not change; all other fields belong to one worker.
type debugInfo struct {
	data      *dwarf.Data
	order     binary.ByteOrder
	alternate *debugInfo // data that dwz moved to a shared file; nil in most cases
	units     []unitRoot
	strings   []byte    // .debug_str
	skeleton  *skeleton // for a split unit: its skeleton in the program

	names map[dwarf.Offset]function
	depth int // recursion depth of scopeOf
	// Symbols are missing because a shared file is missing.
	missingAlternate bool
}

// worker returns a copy for use by another goroutine.
func (d *debugInfo) worker() *debugInfo {
	if d == nil {
		return nil
	}
	own := *d
	own.names, own.depth = map[dwarf.Offset]function{}, 0
	own.alternate = d.alternate.worker()
	return &own
}

// readDebug finds the addresses (sorted) that the debug information covers. It adds their frames, innermost first, to
// found, and records in known whether the debug information was complete. symbols provides names for functions without
// a linkage name. It returns true if the file is damaged.
func (f Files) readDebug(addresses []uint64, files *binaries, symbols map[uint64]string, found map[uint64][]frame, known *names) (damaged bool) {
	o := files.debug()
	if !o.hasDebug() {
		return false
	}
	info := newDebugInfo(o)
	if info == nil {
		return true
	}
	known.debug = true
	if shared := f.alternate(o); shared != nil {
		defer shared.close()
		if info.alternate = newDebugInfo(shared); info.alternate != nil {
			info.alternate.unitsOf(nil)
		}
	}
	splits := &splitFiles{files: f, program: files, order: o.elf.ByteOrder, address: o.section(".debug_addr")}
	defer splits.close()
	work := &unitWork{info: info, splits: splits, symbols: symbols, found: found}
	work.run(info.unitsOf(addresses))
	known.missingAlternate = work.missingAlternate
	known.missingSplit = splits.missingPaths()
	return work.damaged
}

// unitWork reads several units in parallel.
type unitWork struct {
	info    *debugInfo
	splits  *splitFiles
	symbols map[uint64]string // read-only

	mutex            sync.Mutex
	found            map[uint64][]frame
	missingAlternate bool
	damaged          bool
}

func (w *unitWork) run(units []unit) {
	todo := make(chan unit)
	var group sync.WaitGroup
	for range min(len(units), runtime.GOMAXPROCS(0)) {
		worker := w.info.worker()
		group.Go(func() {
			for u := range todo {
				w.read(worker, u)
			}
		})
	}
	for _, u := range units {
		todo <- u
	}
	close(todo)
	group.Wait()
}

// read reads one unit. A unit that cannot be parsed must not affect the symbols of the others.
func (w *unitWork) read(worker *debugInfo, u unit) {
	found := map[uint64][]frame{}
	damaged := Safely(func() bool {
		worker.readUnit(u, w.splits, w.symbols, found)
		return false
	})
	w.mutex.Lock()
	defer w.mutex.Unlock()
	maps.Copy(w.found, found)
	w.missingAlternate = w.missingAlternate || worker.missingAlternate
	w.damaged = w.damaged || damaged
}

func newDebugInfo(o *object) *debugInfo {
	sections := o.sections(".debug_info", ".debug_abbrev", ".debug_line", ".debug_ranges", ".debug_str",
		".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists")
	if sections == nil {
		return nil
	}
	info, text := sections[".debug_info"], sections[".debug_str"]
	data, err := dwarf.New(sections[".debug_abbrev"], nil, nil, info, sections[".debug_line"], nil, sections[".debug_ranges"], text)
	if err != nil {
		return nil
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
		if section := sections[name]; section != nil {
			if data.AddSection(name, section) != nil {
				return nil
			}
		}
	}
	order := o.elf.ByteOrder
	return &debugInfo{data: data, order: order, names: map[dwarf.Offset]function{}, units: unitRoots(info, order), strings: text}
}

// unitRoot is the position of a unit's root entry, with the data of the unit's header.
type unitRoot struct {
	root dwarf.Offset
	kind uint8  // in DWARF 5, else 0
	id   uint64 // the same in a skeleton and its split unit
}

// Unit types.
const (
	unitType = iota + 2
	_
	unitSkeleton
	unitSplitCompile
	unitSplitType
)

// unitRoots walks the headers in .debug_info and returns the position of each unit's root entry. debug/dwarf provides
// the positions only by walking all entries.
func unitRoots(info []byte, order binary.ByteOrder) []unitRoot {
	const escape64 = 0xffffffff
	var roots []unitRoot
	for at := uint64(0); at+12 <= uint64(len(info)); {
		length, offsetBytes, p := uint64(order.Uint32(info[at:])), uint64(4), at+4
		if length == escape64 {
			length, offsetBytes, p = order.Uint64(info[at+4:]), 8, at+12
		}
		end := p + length
		if end < p || end > uint64(len(info)) || p+4 > end {
			break
		}
		unit := unitRoot{}
		if version := order.Uint16(info[p:]); version >= 5 {
			unit.kind = info[p+2]
			p += 4 + offsetBytes // version, kind, address size, abbreviations
			switch unit.kind {
			case unitType, unitSplitType:
				p += 8 + offsetBytes
			case unitSkeleton, unitSplitCompile:
				if p+8 <= end {
					unit.id = order.Uint64(info[p:])
				}
				p += 8
			}
		} else {
			p += 3 + offsetBytes
		}
		if unit.root = dwarf.Offset(p); p < end {
			roots = append(roots, unit)
		}
		at = end
	}
	return roots
}

// unit is a compile unit and the requested addresses in it, sorted.
type unit struct {
	root      *dwarf.Entry
	id        uint64
	addresses []uint64
}

// unitsOf finds the units that contain the addresses, by the root entry of each unit. (.debug_aranges would be faster,
// but clang and rustc do not write it.) It visits every unit, because debug/dwarf modifies its state at the first visit
// of a unit, which workers must not do.
func (d *debugInfo) unitsOf(addresses []uint64) []unit {
	var units []unit
	reader := d.data.Reader()
	left := len(addresses)
	taken := make([]bool, len(addresses))
	for _, at := range d.units {
		reader.Seek(at.root)
		if left == 0 {
			continue
		}
		root, err := reader.Next()
		if err != nil || root == nil || root.Tag != dwarf.TagCompileUnit && root.Tag != dwarf.TagSkeletonUnit {
			continue
		}
		ranges, err := d.data.Ranges(root)
		if err != nil {
			continue
		}
		u := unit{root: root, id: at.id}
		for _, r := range ranges {
			for i := lowerBound(addresses, r[0]); i < len(addresses) && addresses[i] < r[1]; i++ {
				if !taken[i] {
					taken[i] = true
					left--
					u.addresses = append(u.addresses, addresses[i])
				}
			}
		}
		if len(u.addresses) != 0 {
			slices.Sort(u.addresses)
			units = append(units, u)
		}
	}
	return units
}

// lowerBound returns the index of the first of the sorted addresses that is >= a.
func lowerBound(addresses []uint64, a uint64) int {
	return sort.Search(len(addresses), func(i int) bool { return addresses[i] >= a })
}

// within returns the sorted addresses that lie in one of the ranges.
func within(addresses []uint64, ranges [][2]uint64) []uint64 {
	var inside []uint64
	for _, r := range ranges {
		for i := lowerBound(addresses, r[0]); i < len(addresses) && addresses[i] < r[1]; i++ {
			inside = append(inside, addresses[i])
		}
	}
	if len(ranges) > 1 {
		sort.Slice(inside, func(i, j int) bool { return inside[i] < inside[j] })
	}
	return inside
}
