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

// debugInfo is the DWARF of one object, of which only the units that hold addresses of interest are ever read. What
// several workers share does not change once the units have been found; the rest is each worker's own.
type debugInfo struct {
	data      *dwarf.Data
	order     binary.ByteOrder
	alternate *debugInfo // what dwz moved to a shared file; nil in most cases
	units     []unitRoot
	strings   []byte    // .debug_str
	skeleton  *skeleton // of a split unit: what the program knows of it

	names map[dwarf.Offset]function
	depth int // of scopeOf within scopeOf
	// Names are missing because a shared file is.
	lacksAlternate bool
}

// worker returns a debugInfo for use by another goroutine.
func (d *debugInfo) worker() *debugInfo {
	if d == nil {
		return nil
	}
	own := *d
	own.names, own.depth = map[dwarf.Offset]function{}, 0
	own.alternate = d.alternate.worker()
	return &own
}

// readDebug adds to found the frames, innermost first, of those addresses (sorted) that the debug information covers,
// and to known whether it was complete. symbols serve where it has no linker's name for a function. Damage is told.
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
	known.lacksAlternate = work.lacksAlternate
	known.lacksSplit = splits.lacks()
	return work.damaged
}

// unitWork reads units, several at a time.
type unitWork struct {
	info    *debugInfo
	splits  *splitFiles
	symbols map[uint64]string // never changed

	mutex          sync.Mutex
	found          map[uint64][]frame
	lacksAlternate bool
	damaged        bool
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

// read reads one unit. One that this reader cannot make sense of must not cost the others their names.
func (w *unitWork) read(worker *debugInfo, u unit) {
	found := map[uint64][]frame{}
	damaged := Safely(func() bool {
		worker.readUnit(u, w.splits, w.symbols, found)
		return false
	})
	w.mutex.Lock()
	defer w.mutex.Unlock()
	maps.Copy(w.found, found)
	w.lacksAlternate = w.lacksAlternate || worker.lacksAlternate
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

// unitRoot is where a unit's root entry is, and what its header says.
type unitRoot struct {
	root dwarf.Offset
	kind uint8  // of DWARF 5, else 0
	id   uint64 // which a skeleton and its split unit have in common
}

// Kinds of units.
const (
	unitType = iota + 2
	_
	unitSkeleton
	unitSplitCompile
	unitSplitType
)

// unitRoots steps over the headers of .debug_info and returns where each unit's root entry is. debug/dwarf knows, but
// only tells by walking through all entries.
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

// unit is a compile unit and the addresses of interest in it, sorted.
type unit struct {
	root      *dwarf.Entry
	id        uint64
	addresses []uint64
}

// unitsOf finds the units that hold addresses by reading the root entry of each unit. (.debug_aranges would be quicker
// still, but clang and rustc write none.) It goes to every unit, since debug/dwarf changes what it knows of one when it
// goes there for the first time; workers must not.
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
			for i := lowest(addresses, r[0]); i < len(addresses) && addresses[i] < r[1]; i++ {
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

// lowest is the index of the first of the sorted addresses that is at least a.
func lowest(addresses []uint64, a uint64) int {
	return sort.Search(len(addresses), func(i int) bool { return addresses[i] >= a })
}

// within returns those of the sorted addresses that lie in one of the ranges.
func within(addresses []uint64, ranges [][2]uint64) []uint64 {
	var inside []uint64
	for _, r := range ranges {
		for i := lowest(addresses, r[0]); i < len(addresses) && addresses[i] < r[1]; i++ {
			inside = append(inside, addresses[i])
		}
	}
	if len(ranges) > 1 {
		sort.Slice(inside, func(i, j int) bool { return inside[i] < inside[j] })
	}
	return inside
}
