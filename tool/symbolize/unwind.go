package symbolize

import (
	"encoding/binary"
	"sort"
)

// unwindTable is the sorted search table of .eh_frame_hdr. It has an entry for each function even in a stripped
// program, so that all addresses in one function form one row of a report.
type unwindTable struct {
	pairs []byte // function start and FDE, as signed 32-bit offsets from base
	base  uint64
}

// unwindTable finds the object's search table. It returns an empty table if there is none.
func (o *object) unwindTable() unwindTable {
	if o == nil {
		return unwindTable{}
	}
	for _, segment := range o.elf.Progs {
		const gnuEhFrame = 0x6474e550
		if uint32(segment.Type) == gnuEhFrame && o.elf.ByteOrder == binary.LittleEndian {
			return newUnwindTable(o.raw(segment.Off, segment.Filesz), segment.Vaddr)
		}
	}
	return unwindTable{}
}

const pairBytes = 8

// newUnwindTable supports the only encoding that linkers write: 4-byte offsets relative to the section.
func newUnwindTable(data []byte, address uint64) unwindTable {
	const headerBytes, relative4, count4 = 12, 0x3b, 0x03
	if len(data) < headerBytes || data[0] != 1 || data[2] != count4 || data[3] != relative4 || data[1]&0x0f != 0x0b {
		return unwindTable{}
	}
	count := uint64(binary.LittleEndian.Uint32(data[8:]))
	if count > uint64(len(data)-headerBytes)/pairBytes {
		return unwindTable{}
	}
	return unwindTable{pairs: data[headerBytes : headerBytes+count*pairBytes], base: address}
}

func (t unwindTable) start(i int) uint64 {
	return t.base + uint64(int64(int32(binary.LittleEndian.Uint32(t.pairs[i*pairBytes:]))))
}

// functionStart returns the start of the last function at or before address.
func (t unwindTable) functionStart(address uint64) (uint64, bool) {
	after := sort.Search(len(t.pairs)/pairBytes, func(i int) bool { return t.start(i) > address })
	if after == 0 {
		return 0, false
	}
	return t.start(after - 1), true
}
