package symbolize

import (
	"debug/dwarf"
)

// call is one function that is active at an address, and the location in it at which the next inner function was
// inlined.
type call struct {
	function         dwarf.Offset // its own entry, or its abstract origin
	alternate        bool         // function is an offset into the shared file of dwz
	callFile, callAt int          // for an inlined call: its location in the outer function
}

// readUnit adds the frames of the unit's addresses to found.
func (d *debugInfo) readUnit(u unit, splits *splitFiles, symbols map[uint64]string, found map[uint64][]frame) {
	calls := map[uint64][]call{} // outermost first
	inner, root := d, u.root
	if split := splits.open(u); split != nil {
		defer split.object.close()
		inner, root = split.debugInfo, split.root
	}
	if root.Children {
		inner.walkUnit(root.Offset, u.addresses, calls)
	}
	lines := d.linesOf(u)
	for _, address := range u.addresses {
		chain := calls[address]
		line := lines.at[address]
		if len(chain) == 0 {
			if line.file != "" {
				found[address] = []frame{{file: line.file, line: line.line}}
			}
			continue
		}
		frames := make([]frame, 0, len(chain))
		for i := len(chain) - 1; i >= 0; i-- {
			f := inner.function(chain[i])
			fr := frame{system: f.system, display: f.display, file: line.file, line: line.line, startLine: f.line}
			// An unqualified name ("push_back") is less useful than the name in the symbol table.
			if symbol := symbols[address]; i == 0 && f.system == "" && symbol != "" {
				fr.system, fr.display = symbol, ""
			}
			frames = append(frames, fr)
			line = sourceLine{file: lines.file(chain[i].callFile), line: chain[i].callAt}
		}
		found[address] = frames
	}
}

// walkUnit finds the functions that contain the addresses. The first pass skips types and nested functions, because
// compilers put nearly all functions outside them, and most of a C++ unit is types. A second pass covers everything,
// but only for the addresses that are left, such as those in some lambdas.
func (d *debugInfo) walkUnit(root dwarf.Offset, addresses []uint64, calls map[uint64][]call) {
	left := d.walkPass(root, addresses, calls, false)
	if len(left) != 0 {
		d.walkPass(root, left, calls, true)
	}
}

// walkPass walks a unit once and returns the addresses without a function.
func (d *debugInfo) walkPass(root dwarf.Offset, addresses []uint64, calls map[uint64][]call, everywhere bool) []uint64 {
	reader := d.forward(root)
	if reader.next() == nil {
		return nil
	}
	left := len(addresses)
	for depth := 1; depth > 0 && left > 0; {
		entry := reader.next()
		if entry == nil {
			break
		}
		if entry.Tag == 0 {
			depth--
			continue
		}
		if entry.Tag == dwarf.TagSubprogram {
			if hits := d.addressesIn(entry, addresses); len(hits) != 0 {
				for _, a := range hits {
					if len(calls[a]) == 0 {
						left--
					}
					calls[a] = []call{{function: entry.Offset}}
				}
				if entry.Children {
					d.walkFunction(reader, hits, calls)
				}
				continue
			}
		}
		switch {
		case !entry.Children:
		case everywhere, entry.Tag == dwarf.TagNamespace, entry.Tag == dwarf.TagModule:
			depth++
		default:
			reader.skipChildren()
		}
	}
	var missing []uint64
	for _, a := range addresses {
		if len(calls[a]) == 0 {
			missing = append(missing, a)
		}
	}
	return missing
}

// walkFunction reads the children of a function (or of a block in it) and appends the inlined calls at addresses.
func (d *debugInfo) walkFunction(reader *forwardReader, addresses []uint64, calls map[uint64][]call) {
	for {
		entry := reader.next()
		if entry == nil || entry.Tag == 0 {
			return
		}
		switch entry.Tag {
		case dwarf.TagInlinedSubroutine:
			hits := d.addressesIn(entry, addresses)
			if len(hits) == 0 {
				reader.skipChildren()
				continue
			}
			c := inlinedCall(entry)
			for _, a := range hits {
				calls[a] = append(calls[a], c)
			}
			if entry.Children {
				d.walkFunction(reader, hits, calls)
			}
		case dwarf.TagLexDwarfBlock, dwarf.TagTryDwarfBlock, dwarf.TagCatchDwarfBlock:
			hits := addresses
			if entry.AttrField(dwarf.AttrLowpc) != nil || entry.AttrField(dwarf.AttrRanges) != nil {
				hits = d.addressesIn(entry, addresses)
			}
			if len(hits) == 0 {
				reader.skipChildren()
			} else if entry.Children {
				d.walkFunction(reader, hits, calls)
			}
		default:
			reader.skipChildren()
		}
	}
}

// addressesIn returns the addresses that an entry's code contains.
func (d *debugInfo) addressesIn(entry *dwarf.Entry, addresses []uint64) []uint64 {
	if low, ok := entry.Val(dwarf.AttrLowpc).(uint64); ok && entry.AttrField(dwarf.AttrRanges) == nil {
		high := uint64(0)
		switch v := entry.Val(dwarf.AttrHighpc).(type) {
		case uint64:
			high = v
		case int64:
			high = low + uint64(v)
		}
		first := lowerBound(addresses, low)
		last := first
		for last < len(addresses) && addresses[last] < high {
			last++
		}
		return addresses[first:last]
	}
	if entry.AttrField(dwarf.AttrRanges) == nil {
		return nil // a declaration
	}
	if d.skeleton != nil {
		return within(addresses, d.skeleton.ranges(entry, d.order))
	}
	ranges, err := d.data.Ranges(entry)
	if err != nil {
		return nil
	}
	return within(addresses, ranges)
}

func inlinedCall(entry *dwarf.Entry) call {
	c := call{function: entry.Offset}
	if field := entry.AttrField(dwarf.AttrAbstractOrigin); field != nil {
		c.function, c.alternate = reference(field)
	}
	if v, ok := entry.Val(dwarf.AttrCallFile).(int64); ok {
		c.callFile = int(v)
	}
	if v, ok := entry.Val(dwarf.AttrCallLine).(int64); ok {
		c.callAt = int(v)
	}
	return c
}

// reference reads an attribute that refers to another entry, which dwz may have moved to the shared file.
func reference(field *dwarf.Field) (at dwarf.Offset, alternate bool) {
	switch v := field.Val.(type) {
	case dwarf.Offset:
		return v, false
	case int64:
		return dwarf.Offset(v), field.Class == dwarf.ClassReferenceAlt
	}
	return 0, false
}
