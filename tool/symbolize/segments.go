package symbolize

import (
	"debug/elf"

	"github.com/google/pprof/profile"
)

// segments maps file offsets to the file's own addresses, for the executable loadable segments.
type segments struct {
	list      []segment
	debugOnly bool // for a file without code, as under /usr/lib/debug: only the addresses are valid
}

type segment struct{ offset, bytes, address uint64 }

func (o *object) segments() segments {
	s := segments{debugOnly: o.isDebugOnly()}
	for _, p := range o.elf.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			s.list = append(s.list, segment{offset: p.Off, bytes: p.Filesz, address: p.Vaddr})
		}
	}
	return s
}

// bias returns the difference between the run-time addresses of the code in m and the file's own addresses.
func (s segments) bias(m *profile.Mapping) (uint64, bool) {
	for _, one := range s.list {
		if one.offset < m.Offset+(m.Limit-m.Start) && m.Offset < one.offset+one.bytes {
			return m.Start - m.Offset + one.offset - one.address, true
		}
	}
	return 0, false
}

// translate converts a run-time address in m to the file's own address: the mapping gives the file offset, and the
// segments give the address of that offset.
func (s segments) translate(m *profile.Mapping, address uint64) (uint64, bool) {
	if len(s.list) == 0 || address < m.Start || m.Limit != 0 && address >= m.Limit {
		return 0, false
	}
	if s.debugOnly {
		// strip --only-keep-debug changes the segments' file offsets but not their addresses. Linkers create one
		// executable segment. Its first page is at the start of the mapping.
		const pageMask = 4095
		return address - m.Start + s.list[len(s.list)-1].address&^pageMask, true
	}
	offset := address - m.Start + m.Offset
	for _, one := range s.list {
		if offset >= one.offset && offset-one.offset < one.bytes {
			return offset - one.offset + one.address, true
		}
	}
	return 0, false
}
