package symbolize

import (
	"debug/dwarf"
	"strings"
)

// function is what the debug information calls a function.
type function struct {
	system  string // the linker's name, mangled
	display string // where there is none: the plain name, with the names of its scopes
	line    int    // of its declaration
}

// attrMIPSLinkageName is what compilers wrote before DWARF 4 had a linkage name.
const attrMIPSLinkageName = dwarf.Attr(0x2007)

// maxOrigins bounds a chain of entries that refer to one another; in well-formed files there are at most three.
const maxOrigins = 8

// function names a call's function.
func (d *debugInfo) function(c call) function {
	if c.alternate {
		if d.alternate == nil {
			d.lacksAlternate = true
			return function{display: "(inlined; its name is in a dwz file that is not installed)"}
		}
		return d.alternate.function(call{function: c.function})
	}
	if known, ok := d.names[c.function]; ok {
		return known
	}
	f := d.resolve(c.function)
	d.names[c.function] = f
	return f
}

// resolve follows abstract origins and specifications until it meets a linker's name.
func (d *debugInfo) resolve(offset dwarf.Offset) function {
	var f function
	var nameAt dwarf.Offset
	plain := ""
	reader := d.data.Reader()
	for range maxOrigins {
		reader.Seek(offset)
		entry, err := reader.Next()
		if err != nil || entry == nil {
			break
		}
		if line, ok := entry.Val(dwarf.AttrDeclLine).(int64); ok && f.line == 0 {
			f.line = int(line)
		}
		for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, attrMIPSLinkageName} {
			if name, ok := d.text(entry.AttrField(attr)); ok && f.system == "" {
				f.system = name
			}
		}
		if name, ok := d.text(entry.AttrField(dwarf.AttrName)); ok && plain == "" {
			plain, nameAt = name, offset
		}
		if f.system != "" && f.line != 0 {
			break
		}
		next := entry.AttrField(dwarf.AttrSpecification)
		if next == nil {
			next = entry.AttrField(dwarf.AttrAbstractOrigin)
		}
		if next == nil {
			break
		}
		var alternate bool
		if offset, alternate = reference(next); alternate {
			if d.alternate == nil {
				d.lacksAlternate = true
				break
			}
			other := d.alternate.function(call{function: offset})
			if f.system == "" && plain == "" {
				f.system, f.display = other.system, other.display
			}
			return f
		}
	}
	if f.system == "" && plain != "" {
		if scope := d.scopeOf(nameAt); scope != "" {
			f.display = scope + "::" + plain
		} else {
			f.system = plain // C, or extern "C"
		}
	}
	return f
}

// text reads an attribute that is a string, possibly one in the shared file of dwz.
func (d *debugInfo) text(field *dwarf.Field) (string, bool) {
	if field == nil {
		return "", false
	}
	name, ok := field.Val.(string)
	if offset, isOffset := field.Val.(int64); isOffset && field.Class == dwarf.ClassStringAlt {
		if d.alternate == nil {
			d.lacksAlternate = true
			return "", false
		}
		name, ok = cString(d.alternate.strings, uint32(offset)), true
	}
	return name, ok && name != ""
}

// scopeOf returns the namespaces and classes around an entry, as "a::b". Entries do not point to their parents, so it
// walks down from the unit's root; it is only called for the few functions without a linker's name.
func (d *debugInfo) scopeOf(target dwarf.Offset) string {
	// A scope can be a function whose own name asks for its scope; a damaged file can make that a circle.
	if d.depth == maxOrigins {
		return ""
	}
	d.depth++
	defer func() { d.depth-- }()
	reader := d.forward(d.rootOf(target))
	if root := reader.next(); root == nil || !root.Children {
		return ""
	}
	var path []string
	// Invariant: target is somewhere below the entry whose children the reader is at.
	for {
		entry := reader.next()
		switch {
		case entry == nil:
			return ""
		case entry.Offset < target && entry.Tag != 0:
			if !entry.Children || !reader.contains(entry, target) {
				continue // contains left the reader behind entry's children
			}
			path = d.enter(path, entry)
		case entry.Offset == target:
			return strings.Join(path, "::")
		case entry.Offset > target:
			return ""
		}
	}
}

// enter adds the name of a scope to the path that leads to it.
func (d *debugInfo) enter(path []string, scope *dwarf.Entry) []string {
	name, named := d.text(scope.AttrField(dwarf.AttrName))
	switch scope.Tag {
	case dwarf.TagNamespace:
		if !named {
			name = "(anonymous namespace)"
		}
	case dwarf.TagClassType, dwarf.TagStructType, dwarf.TagUnionType:
		if !named {
			name = "{lambda}" // the only types without a name that have functions in nearly all programs
		}
	case dwarf.TagSubprogram:
		if !named {
			f := d.function(call{function: scope.Offset}) // declared elsewhere: its whole name comes from there
			if name = f.display; name == "" {
				name = Demangle(f.system, Short)
			}
			path = nil
		}
	default:
		return path
	}
	return append(path, withoutArguments(name))
}

// rootOf is the root entry of the unit that holds the entry at offset.
func (d *debugInfo) rootOf(offset dwarf.Offset) dwarf.Offset {
	root := dwarf.Offset(0)
	for _, u := range d.units {
		if u.root > offset {
			break
		}
		root = u.root
	}
	return root
}

// withoutArguments shortens vector<int> to vector, as the short style of mangled names does.
func withoutArguments(name string) string {
	if i := strings.IndexByte(name, '<'); i > 0 {
		return name[:i]
	}
	return name
}
