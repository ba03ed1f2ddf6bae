package symbolize

import "debug/dwarf"

// forwardReader reads entries in file order. In a damaged file a sibling reference can point backwards, which sends the
// reader of debug/dwarf into an endless loop. This reader stops there.
type forwardReader struct {
	reader *dwarf.Reader
	last   dwarf.Offset
}

// forward returns a reader that starts at the entry at offset.
func (d *debugInfo) forward(offset dwarf.Offset) *forwardReader {
	f := &forwardReader{reader: d.data.Reader()}
	f.reader.Seek(offset)
	return f
}

// next returns the next entry. The end of a list of children is an entry without a tag. It returns nil at the end of
// the data and where the file is damaged.
func (f *forwardReader) next() *dwarf.Entry {
	entry, err := f.reader.Next()
	if err != nil || entry == nil {
		return nil
	}
	if entry.Tag != 0 {
		if entry.Offset <= f.last {
			return nil
		}
		f.last = entry.Offset
	}
	return entry
}

// skipChildren skips the children of the entry just read.
func (f *forwardReader) skipChildren() { f.reader.SkipChildren() }

// contains reports whether target is a descendant of entry, which was just read and has children. If so, the next entry
// is the first descendant; otherwise it is the entry behind all descendants.
func (f *forwardReader) contains(entry *dwarf.Entry, target dwarf.Offset) bool {
	if sibling, ok := entry.Val(dwarf.AttrSibling).(dwarf.Offset); ok {
		if target >= sibling {
			f.reader.Seek(sibling)
			return false
		}
		return true
	}
	f.reader.SkipChildren()
	behind, err := f.reader.Next()
	// The last sibling is followed by an entry without a tag. In that case a target that was not found before lies
	// below this entry.
	if err == nil && behind != nil && behind.Tag != 0 && target >= behind.Offset {
		f.reader.Seek(behind.Offset)
		return false
	}
	f.reader.Seek(entry.Offset)
	_, err = f.reader.Next()
	return err == nil
}
