package symbolize

import (
	"debug/dwarf"
)

// sourceLine is a source location.
type sourceLine struct {
	file string
	line int
}

// unitLines holds a unit's line table entries for the requested addresses.
type unitLines struct {
	at    map[uint64]sourceLine
	files []*dwarf.LineFile
}

// file returns the name of the file with this number in the unit, or "" if there is none.
func (l unitLines) file(number int) string {
	if number < 0 || number >= len(l.files) || l.files[number] == nil {
		return ""
	}
	return l.files[number].Name
}

// linesOf runs a unit's line program once for all its addresses. A lookup of single addresses would run it from the
// start each time.
func (d *debugInfo) linesOf(u unit) unitLines {
	lines := unitLines{at: map[uint64]sourceLine{}}
	reader, err := d.data.LineReader(u.root)
	if err != nil || reader == nil {
		return lines
	}
	var previous, row dwarf.LineEntry
	open := false // previous starts a row, which row ends, in the same sequence
	for reader.Next(&row) == nil {
		if open && row.Address > previous.Address {
			for i := lowerBound(u.addresses, previous.Address); i < len(u.addresses) && u.addresses[i] < row.Address; i++ {
				place := sourceLine{line: previous.Line}
				if previous.File != nil {
					place.file = previous.File.Name
				}
				lines.at[u.addresses[i]] = place
			}
		}
		previous, open = row, !row.EndSequence
	}
	lines.files = reader.Files()
	return lines
}
