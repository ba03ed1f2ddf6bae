package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/ulikunitz/xz"
)

// Fedora and its relatives put the symbol table of a stripped file into its section .gnu_debugdata: an ELF file without
// code, compressed by xz. It names the functions that .dynsym lacks ("MiniDebugInfo" of gdb).

// Limits against damaged files. The largest section of Fedora is about 10 MiB uncompressed, and rpm uses a dictionary of
// 8 MiB.
const (
	maxMiniDebugBytes   = 256 << 20
	maxXZDictionaryBits = 26
)

// miniDebug returns the object in .gnu_debugdata, or nil if there is none.
func (o *object) miniDebug() *object {
	if o == nil {
		return nil
	}
	return unpackMiniDebug(o.section(".gnu_debugdata"), o.path)
}

func unpackMiniDebug(packed []byte, path string) *object {
	if !hasSmallDictionary(packed) {
		return nil
	}
	reader, err := xz.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(reader, maxMiniDebugBytes))
	if err != nil {
		return nil
	}
	return newObject(plain, path)
}

// hasSmallDictionary reports whether the first block of an xz stream needs a dictionary of at most 64 MiB. The library
// would allocate up to 4 GiB as the file states. Layout: a stream header of 12 bytes; the block's header size, its flags,
// optionally two sizes, and the filter LZMA2 (id 0x21, one byte of properties).
func hasSmallDictionary(stream []byte) bool {
	const streamHeaderBytes, hasPackedSize, hasPlainSize, idLZMA2 = 12, 0x40, 0x80, 0x21
	if len(stream) < streamHeaderBytes+2 {
		return false
	}
	flags, rest := stream[streamHeaderBytes+1], stream[streamHeaderBytes+2:]
	for _, flag := range []byte{hasPackedSize, hasPlainSize} {
		if flags&flag != 0 {
			_, used := binary.Uvarint(rest)
			rest = rest[max(used, 0):]
		}
	}
	// The property is 2 * bits - 24 for a power of two, or one more for one and a half times as much.
	return len(rest) >= 3 && rest[0] == idLZMA2 && rest[1] == 1 && rest[2] <= 2*maxXZDictionaryBits-24
}

// withMiniDebug adds the object in .gnu_debugdata of the main file, unless one of the objects has a symbol table.
func withMiniDebug(objects ...*object) []*object {
	for _, o := range objects {
		if o != nil {
			if table := o.elf.Section(".symtab"); table != nil && table.Type != elf.SHT_NOBITS {
				return objects
			}
		}
	}
	return append(objects, objects[0].miniDebug())
}
