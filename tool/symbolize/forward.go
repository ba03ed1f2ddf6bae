package symbolize

import "debug/dwarf"

// forwardReader reads entries in the order of the file. In a damaged file a sibling can point backwards, which would
// send debug/dwarf's reader round in circles for ever; this one stops there.
type forwardReader struct {
	reader *dwarf.Reader
	last   dwarf.Offset
}

// forward returns a reader whose first entry is the one at offset.
func (d *debugInfo) forward(offset dwarf.Offset) *forwardReader {
	f := &forwardReader{reader: d.data.Reader()}
	f.reader.Seek(offset)
	return f
}

// next is the next entry, one without a tag at the end of a list of children; nil at the end or where the file is
// damaged.
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

// skipChildren passes over the children of the entry just read.
func (f *forwardReader) skipChildren() { f.reader.SkipChildren() }

// contains says whether target lies among the descendants of entry, which was just read and has children. The next
// entry is then the first of them, otherwise the one behind them all.
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
	// Behind the last sibling stands an entry without a tag; what was not before it is then below this one.
	if err == nil && behind != nil && behind.Tag != 0 && target >= behind.Offset {
		f.reader.Seek(behind.Offset)
		return false
	}
	f.reader.Seek(entry.Offset)
	_, err = f.reader.Next()
	return err == nil
}
