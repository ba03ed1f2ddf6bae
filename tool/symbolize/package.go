package symbolize

import "encoding/binary"

// splitPackage is a .dwp file: the concatenated sections of many .dwo files, and a hash table with each unit's
// contribution to each section (DWARF 5, section 7.3.5).
type splitPackage struct {
	object   *object
	index    []byte // .debug_cu_index
	order    binary.ByteOrder
	columns  []uint32 // the section of each column of the table
	units    uint32
	slots    uint32
	sections map[uint32][]byte
	str      []byte
}

// The section numbers in the table.
const (
	packedInfo       = 1
	packedAbbrev     = 3
	packedStrOffsets = 6
	packedRnglists   = 8
)

const (
	packageHeaderBytes = 16
	signatureBytes     = 8
	cellBytes          = 4
)

// newSplitPackage reads a package. It returns nil if the file is not a package of DWARF 5.
func newSplitPackage(o *object) *splitPackage {
	p := readPackageIndex(o.section(".debug_cu_index"), o.elf.ByteOrder)
	if p == nil {
		return nil
	}
	p.object = o
	p.sections = map[uint32][]byte{
		packedInfo: o.section(".debug_info.dwo"), packedAbbrev: o.section(".debug_abbrev.dwo"),
		packedStrOffsets: o.section(".debug_str_offsets.dwo"), packedRnglists: o.section(".debug_rnglists.dwo"),
	}
	p.str = o.section(".debug_str.dwo")
	return p
}

func readPackageIndex(index []byte, order binary.ByteOrder) *splitPackage {
	if len(index) < packageHeaderBytes || order.Uint16(index) != 5 {
		return nil
	}
	p := &splitPackage{index: index, order: order, units: order.Uint32(index[8:]), slots: order.Uint32(index[12:])}
	columns := order.Uint32(index[4:])
	const maxColumns = 16
	need := packageHeaderBytes + uint64(p.slots)*(signatureBytes+cellBytes) + uint64(columns)*cellBytes*(1+2*uint64(p.units))
	if columns > maxColumns || p.slots == 0 || p.slots&(p.slots-1) != 0 || need > uint64(len(index)) {
		return nil
	}
	for i := range columns {
		p.columns = append(p.columns, p.cell(0, i, columns))
	}
	return p
}

// cell reads the tables behind the hash table: row 0 holds the column numbers, followed by one row of offsets per unit
// and one row of sizes per unit.
func (p *splitPackage) cell(row, column, columns uint32) uint32 {
	start := packageHeaderBytes + uint64(p.slots)*(signatureBytes+cellBytes)
	return p.order.Uint32(p.index[start+cellBytes*(uint64(row)*uint64(columns)+uint64(column)):])
}

// find returns the contributions of the unit with that id, or nil if it is not in the package.
func (p *splitPackage) find(id uint64) *splitSections {
	mask := uint64(p.slots - 1)
	rows := packageHeaderBytes + uint64(p.slots)*signatureBytes
	slot, step := id&mask, id>>32&mask|1
	for range p.slots {
		row := p.order.Uint32(p.index[rows+slot*cellBytes:])
		switch {
		case row == 0 || row > p.units:
			return nil
		case p.order.Uint64(p.index[packageHeaderBytes+slot*signatureBytes:]) == id:
			return p.contributions(row)
		}
		slot = (slot + step) & mask
	}
	return nil
}

func (p *splitPackage) contributions(row uint32) *splitSections {
	shares := &splitSections{str: p.str}
	of := map[uint32]*[]byte{
		packedInfo: &shares.info, packedAbbrev: &shares.abbrev, packedStrOffsets: &shares.strOffsets, packedRnglists: &shares.rnglists,
	}
	columns := uint32(len(p.columns))
	for i, kind := range p.columns {
		share := of[kind]
		if share == nil {
			continue
		}
		offset, size := uint64(p.cell(row, uint32(i), columns)), uint64(p.cell(row+p.units, uint32(i), columns))
		if section := p.sections[kind]; offset+size <= uint64(len(section)) {
			*share = section[offset : offset+size : offset+size]
		}
	}
	return shares
}
