package symbolize

import (
	"debug/elf"

	"github.com/google/pprof/profile"
)

// segments say which of a file's bytes lie at which of its own addresses: the executable ones of its loadable segments.
type segments struct {
	list      []segment
	debugOnly bool // of a file without the code itself, as under /usr/lib/debug: only the addresses are true
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

// bias is what the addresses at which the code in m runs are above the file's own.
func (s segments) bias(m *profile.Mapping) (uint64, bool) {
	for _, one := range s.list {
		if one.offset < m.Offset+(m.Limit-m.Start) && m.Offset < one.offset+one.bytes {
			return m.Start - m.Offset + one.offset - one.address, true
		}
	}
	return 0, false
}

// translate turns a run-time address within m into the file's own: the mapping says which byte of the file is there,
// and the segments say which address the file gave that byte.
func (s segments) translate(m *profile.Mapping, address uint64) (uint64, bool) {
	if len(s.list) == 0 || address < m.Start || m.Limit != 0 && address >= m.Limit {
		return 0, false
	}
	if s.debugOnly {
		// strip --only-keep-debug moves the segments' places in the file, but not their addresses. With the one
		// executable segment that linkers make, its first page is where the mapping starts.
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
