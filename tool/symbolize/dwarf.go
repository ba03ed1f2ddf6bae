package symbolize

import (
	"debug/dwarf"
	"encoding/binary"
	"sort"
)

// debugInfo is the DWARF of one object, of which only the units that hold addresses of interest are ever read.
type debugInfo struct {
	data      *dwarf.Data
	alternate *debugInfo // what dwz moved to a shared file; nil in most cases
	names     map[dwarf.Offset]function
	units     []dwarf.Offset // of the root entries
	depth     int            // of scopeOf within scopeOf
}

// readDebug adds to found the frames, innermost first, of those addresses (sorted) that the debug information covers.
// symbols serve where it has no linker's name for a function.
func readDebug(addresses []uint64, files Files, o *object, symbols map[uint64]string, found map[uint64][]frame) {
	if !o.hasDebug() {
		return
	}
	info := newDebugInfo(o)
	if info == nil {
		return
	}
	if shared := files.alternate(o); shared != nil {
		defer shared.close()
		info.alternate = newDebugInfo(shared)
	}
	for _, unit := range info.unitsOf(addresses) {
		// One unit that this reader cannot make sense of must not cost the others their names.
		safely(func() bool {
			info.readUnit(unit, symbols, found)
			return false
		})
	}
}

func newDebugInfo(o *object) *debugInfo {
	info := o.section(".debug_info")
	data, err := dwarf.New(o.section(".debug_abbrev"), nil, nil, info, o.section(".debug_line"), nil,
		o.section(".debug_ranges"), o.section(".debug_str"))
	if err != nil {
		return nil
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
		if section := o.section(name); section != nil {
			if data.AddSection(name, section) != nil {
				return nil
			}
		}
	}
	return &debugInfo{data: data, names: map[dwarf.Offset]function{}, units: unitRoots(info, o.elf.ByteOrder)}
}

// unitRoots steps over the headers of .debug_info and returns where each unit's root entry is. debug/dwarf knows, but
// only tells by walking through all entries.
func unitRoots(info []byte, order binary.ByteOrder) []dwarf.Offset {
	const (
		escape64                              = 0xffffffff
		unitType, unitSkeleton, unitSplitType = 2, 4, 6
	)
	var roots []dwarf.Offset
	for at := uint64(0); at+12 <= uint64(len(info)); {
		length, offsetBytes, p := uint64(order.Uint32(info[at:])), uint64(4), at+4
		if length == escape64 {
			length, offsetBytes, p = order.Uint64(info[at+4:]), 8, at+12
		}
		end := p + length
		if end < p || end > uint64(len(info)) || p+4 > end {
			break
		}
		version, kind := order.Uint16(info[p:]), info[p+2]
		p += 2
		if version >= 5 {
			p += 2 + offsetBytes // kind, address size, abbreviations
			switch kind {
			case unitType, unitSplitType:
				p += 8 + offsetBytes
			case unitSkeleton, unitSkeleton + 1:
				p += 8
			}
		} else {
			p += offsetBytes + 1
		}
		if p < end {
			roots = append(roots, dwarf.Offset(p))
		}
		at = end
	}
	return roots
}

// unit is a compile unit and the addresses of interest in it, sorted.
type unit struct {
	root      *dwarf.Entry
	addresses []uint64
}

// unitsOf finds the units that hold addresses by reading the root entry of each unit. (.debug_aranges would be quicker
// still, but clang and rustc write none.)
func (d *debugInfo) unitsOf(addresses []uint64) []unit {
	var units []unit
	reader := d.data.Reader()
	left := len(addresses)
	taken := make([]bool, len(addresses))
	for _, offset := range d.units {
		if left == 0 {
			break
		}
		reader.Seek(offset)
		root, err := reader.Next()
		if err != nil || root == nil || root.Tag != dwarf.TagCompileUnit && root.Tag != dwarf.TagSkeletonUnit {
			continue
		}
		ranges, err := d.data.Ranges(root)
		if err != nil {
			continue
		}
		u := unit{root: root}
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
			sort.Slice(u.addresses, func(i, j int) bool { return u.addresses[i] < u.addresses[j] })
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
