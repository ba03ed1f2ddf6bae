package symbolize

import "encoding/binary"

// packageFile is a DWARF package file (.dwp): the concatenated sections of many .dwo files, and the index of their
// units. The index (.debug_cu_index) has a header, a hash table of signatures, a parallel table of row numbers, and
// two tables with one row per unit and one column per section: the offsets and the sizes of the unit's contributions
// (DWARF 5, section 7.3.5).
type packageFile struct {
	object   *object
	index    []byte // .debug_cu_index
	order    binary.ByteOrder
	columns  []uint32 // the section identifier (DW_SECT_*) of each column
	units    uint32   // unit_count
	slots    uint32   // slot_count, a power of two
	sections map[uint32][]byte
	str      []byte
}

// Section identifiers.
const (
	sectInfo       = 1 // DW_SECT_INFO
	sectAbbrev     = 3 // DW_SECT_ABBREV
	sectStrOffsets = 6 // DW_SECT_STR_OFFSETS
	sectRnglists   = 8 // DW_SECT_RNGLISTS
)

const (
	indexHeaderBytes = 16
	signatureBytes   = 8
	indexWordBytes   = 4 // a row number, section identifier, offset or size
)

// newPackageFile reads a package file. It returns nil if the file is not a package file of DWARF 5.
func newPackageFile(o *object) *packageFile {
	p := readUnitIndex(o.section(".debug_cu_index"), o.elf.ByteOrder)
	if p == nil {
		return nil
	}
	p.object = o
	p.sections = map[uint32][]byte{
		sectInfo: o.section(".debug_info.dwo"), sectAbbrev: o.section(".debug_abbrev.dwo"),
		sectStrOffsets: o.section(".debug_str_offsets.dwo"), sectRnglists: o.section(".debug_rnglists.dwo"),
	}
	p.str = o.section(".debug_str.dwo")
	return p
}

// readUnitIndex parses the header and the column headers. It returns nil if the index is damaged or of another version.
func readUnitIndex(index []byte, order binary.ByteOrder) *packageFile {
	if len(index) < indexHeaderBytes || order.Uint16(index) != 5 {
		return nil
	}
	p := &packageFile{index: index, order: order, units: order.Uint32(index[8:]), slots: order.Uint32(index[12:])}
	columns := order.Uint32(index[4:]) // section_count
	const maxColumns = 16
	need := indexHeaderBytes + uint64(p.slots)*(signatureBytes+indexWordBytes) + uint64(columns)*indexWordBytes*(1+2*uint64(p.units))
	if columns > maxColumns || p.slots == 0 || p.slots&(p.slots-1) != 0 || need > uint64(len(index)) {
		return nil
	}
	for i := range columns {
		p.columns = append(p.columns, p.entry(0, i, columns))
	}
	return p
}

// entry reads the two tables behind the hash table as one. Row 0 holds the section identifiers (the column headers),
// rows 1 to units the offsets, and the next rows the sizes.
func (p *packageFile) entry(row, column, columns uint32) uint32 {
	start := indexHeaderBytes + uint64(p.slots)*(signatureBytes+indexWordBytes)
	return p.order.Uint32(p.index[start+indexWordBytes*(uint64(row)*uint64(columns)+uint64(column)):])
}

// find looks the signature up in the hash table. It returns the unit's contributions, or nil if the unit is not in the
// package file. The signature of a compilation unit is its DWO id.
func (p *packageFile) find(signature uint64) *splitSections {
	mask := uint64(p.slots - 1)
	rows := indexHeaderBytes + uint64(p.slots)*signatureBytes // the parallel table
	slot, step := signature&mask, signature>>32&mask|1
	for range p.slots {
		row := p.order.Uint32(p.index[rows+slot*indexWordBytes:])
		switch {
		case row == 0 || row > p.units: // an unused slot, or a damaged index
			return nil
		case p.order.Uint64(p.index[indexHeaderBytes+slot*signatureBytes:]) == signature:
			return p.contributions(row)
		}
		slot = (slot + step) & mask
	}
	return nil
}

// contributions returns the parts of the sections that belong to the unit in this row of the index.
func (p *packageFile) contributions(row uint32) *splitSections {
	unit := &splitSections{str: p.str}
	of := map[uint32]*[]byte{
		sectInfo: &unit.info, sectAbbrev: &unit.abbrev, sectStrOffsets: &unit.strOffsets, sectRnglists: &unit.rnglists,
	}
	columns := uint32(len(p.columns))
	for i, section := range p.columns {
		contribution := of[section]
		if contribution == nil {
			continue
		}
		offset, size := uint64(p.entry(row, uint32(i), columns)), uint64(p.entry(row+p.units, uint32(i), columns))
		if data := p.sections[section]; offset+size <= uint64(len(data)) {
			*contribution = data[offset : offset+size : offset+size]
		}
	}
	return unit
}
