package symbolize

import (
	"bytes"
	"debug/elf"
	"strings"
)

// findSymbols finds the symbols of addresses (sorted) in the objects' symbol tables: first the static tables, then the
// dynamic ones.
func findSymbols(addresses []uint64, objects ...*object) map[uint64]string {
	names := map[uint64]string{}
	for _, table := range []struct{ symbols, strings string }{{".symtab", ".strtab"}, {".dynsym", ".dynstr"}} {
		for _, o := range objects {
			var open []uint64
			for _, a := range addresses {
				if _, done := names[a]; !done {
					open = append(open, a)
				}
			}
			if o == nil || len(open) == 0 {
				continue
			}
			scan := newSymbolScan(open)
			scan.read(o, o.section(table.symbols), o.section(table.strings))
			for i, best := range scan.best {
				if best.name != "" {
					names[open[i]] = best.name
				}
			}
		}
	}
	return names
}

// symbolScan finds the best symbol of each address in one pass over a table, without sorting or copying the table: a
// large program has a million symbols, and a profile some thousand addresses.
type symbolScan struct {
	addresses []uint64
	best      []candidate // symbols with a size that contain the address with the same index
	// The nearest symbol before an address, recorded at the first address behind it. finish carries both forward.
	sizeless []candidate // symbols of hand-written assembly have no size
	starts   []uint64    // of symbols with a size
}

type candidate struct {
	name  string
	value uint64
	end   uint64 // of the symbol, or of its section if the symbol has no size
	rank  int    // priority among symbols with the same address
}

func newSymbolScan(addresses []uint64) *symbolScan {
	n := len(addresses)
	return &symbolScan{addresses: addresses, best: make([]candidate, n), sizeless: make([]candidate, n), starts: make([]uint64, n)}
}

func (s *symbolScan) read(o *object, table, text []byte) {
	const entryBytes = 24 // in a 64-bit file, the only kind that the allocator supports
	if o.elf.Class != elf.ELFCLASS64 {
		return
	}
	order := o.elf.ByteOrder
	for ; len(table) >= entryBytes; table = table[entryBytes:] {
		kind := elf.SymType(table[4] & 15)
		section := int(order.Uint16(table[6:]))
		const gnuIfunc = 10
		if section == int(elf.SHN_UNDEF) || kind != elf.STT_FUNC && kind != elf.STT_NOTYPE && kind != gnuIfunc {
			continue
		}
		value, size := order.Uint64(table[8:]), order.Uint64(table[16:])
		first := lowerBound(s.addresses, value)
		if first == len(s.addresses) {
			continue
		}
		c := candidate{value: value, end: value + size}
		if size != 0 {
			s.starts[first] = max(s.starts[first], value)
			if s.addresses[first] >= c.end {
				continue
			}
		}
		// The name is copied only now, because most symbols are not near any address.
		c.name = cString(text, order.Uint32(table))
		c.rank = rank(c.name, elf.SymBind(table[4]>>4))
		if size == 0 {
			if section < len(o.elf.Sections) && o.elf.Sections[section].Flags&elf.SHF_EXECINSTR != 0 {
				c.end = o.elf.Sections[section].Addr + o.elf.Sections[section].Size
				c.replaceIfBetter(&s.sizeless[first])
			}
			continue
		}
		for i := first; i < len(s.addresses) && s.addresses[i] < c.end; i++ {
			c.replaceIfBetter(&s.best[i])
		}
	}
	s.finish()
}

// finish assigns to each address without a containing symbol the nearest preceding symbol without a size, unless
// another function starts in between.
func (s *symbolScan) finish() {
	var last candidate
	var start uint64
	for i, address := range s.addresses {
		start = max(start, s.starts[i])
		if s.sizeless[i].name != "" {
			last = s.sizeless[i]
		}
		if s.best[i].name == "" && last.name != "" && last.value >= start && address < last.end {
			s.best[i] = last
		}
	}
}

// rank prefers public names. For example, it prefers malloc to __libc_malloc.
func rank(name string, bind elf.SymBind) int {
	r := len(strings.TrimLeft(name, "_")) - len(name)
	switch bind {
	case elf.STB_GLOBAL:
		r += 200
	case elf.STB_WEAK:
		r += 100
	}
	return r
}

// replaceIfBetter replaces old by c if c is better: nearer to the address, of higher rank, or first by name.
func (c candidate) replaceIfBetter(old *candidate) {
	switch {
	case c.name == "" || c.name[0] == '$': // $x, $d: marker symbols of the ARM assembler
		return
	case old.name == "" || c.value > old.value:
	case c.value < old.value || c.rank < old.rank || c.rank == old.rank && c.name >= old.name:
		return
	}
	*old = c
}

func cString(text []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(text)) {
		return ""
	}
	text = text[offset:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return string(text[:end])
	}
	return ""
}
