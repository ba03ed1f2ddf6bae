package symbolize

import (
	"debug/dwarf"
	"strings"
)

// function holds the names of a function in the debug information.
type function struct {
	system  string // linkage name, mangled
	display string // for functions without a linkage name: the plain name, qualified with its scopes
	line    int    // of its declaration
}

// attrMIPSLinkageName is the attribute that compilers used before DWARF 4 introduced the linkage name.
const attrMIPSLinkageName = dwarf.Attr(0x2007)

// maxOrigins limits a chain of entries that refer to each other. In well-formed files it has at most three entries.
const maxOrigins = 8

// function returns the names of the called function.
func (d *debugInfo) function(c call) function {
	if c.alternate {
		if d.alternate == nil {
			d.missingAlternate = true
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

// resolve follows abstract origins and specifications until it finds a linkage name.
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
				d.missingAlternate = true
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

// text reads a string attribute. The string may be in the shared file of dwz.
func (d *debugInfo) text(field *dwarf.Field) (string, bool) {
	if field == nil {
		return "", false
	}
	name, ok := field.Val.(string)
	if offset, isOffset := field.Val.(int64); isOffset && field.Class == dwarf.ClassStringAlt {
		if d.alternate == nil {
			d.missingAlternate = true
			return "", false
		}
		name, ok = cString(d.alternate.strings, uint32(offset)), true
	}
	return name, ok && name != ""
}

// scopeOf returns the namespaces and classes that enclose an entry, as "a::b". Entries do not point to their parents,
// so it descends from the unit's root. It is called only for the few functions without a linkage name.
func (d *debugInfo) scopeOf(target dwarf.Offset) string {
	// A scope can be a function, and its name requires its own scope. In a damaged file this recursion can be endless.
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
	// Invariant: the reader reads the children of an entry, and target is a descendant of that entry.
	for {
		entry := reader.next()
		switch {
		case entry == nil:
			return ""
		case entry.Offset < target && entry.Tag != 0:
			if !entry.Children || !reader.contains(entry, target) {
				continue // contains left the reader behind the children of entry
			}
			path = d.enter(path, entry)
		case entry.Offset == target:
			return strings.Join(path, "::")
		case entry.Offset > target:
			return ""
		}
	}
}

// enter appends the name of a scope to the path of its enclosing scopes.
func (d *debugInfo) enter(path []string, scope *dwarf.Entry) []string {
	name, named := d.text(scope.AttrField(dwarf.AttrName))
	switch scope.Tag {
	case dwarf.TagNamespace:
		if !named {
			name = "(anonymous namespace)"
		}
	case dwarf.TagClassType, dwarf.TagStructType, dwarf.TagUnionType:
		if !named {
			name = "{lambda}" // nearly always the only unnamed types with member functions
		}
	case dwarf.TagSubprogram:
		if !named {
			f := d.function(call{function: scope.Offset}) // declared elsewhere: the declaration has the qualified name
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

// rootOf returns the root entry of the unit that contains the entry at offset.
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

// withoutArguments shortens vector<int> to vector, like the short style of mangled names.
func withoutArguments(name string) string {
	if i := strings.IndexByte(name, '<'); i > 0 {
		return name[:i]
	}
	return name
}
