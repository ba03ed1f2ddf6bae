package symbolize

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// object is one ELF file in memory. All methods may be called on nil, which knows nothing.
type object struct {
	elf  *elf.File
	data []byte // the whole file, mapped
	path string // where it was opened
}

// openObject maps the file at path; nil when that is not a readable ELF file.
func openObject(path string) *object {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < 64 {
		return nil
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	parsed, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		_ = unix.Munmap(data)
		return nil
	}
	return &object{elf: parsed, data: data, path: path}
}

func (o *object) close() {
	if o != nil && o.data != nil {
		_ = unix.Munmap(o.data)
		o.data = nil
	}
}

// or returns o, or other where o is nil.
func (o *object) or(other *object) *object {
	if o != nil {
		return o
	}
	return other
}

// section returns a section's bytes, decompressed where needed; nil when there is none. It also finds the older
// .zdebug_ spelling.
func (o *object) section(name string) []byte {
	if o == nil {
		return nil
	}
	if s := o.elf.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
		if s.Flags&elf.SHF_COMPRESSED == 0 {
			return o.raw(s.Offset, s.FileSize)
		}
		return readExactly(s.Open(), s.Size, s.FileSize)
	}
	rest, ok := strings.CutPrefix(name, ".debug_")
	if !ok {
		return nil
	}
	if s := o.elf.Section(".zdebug_" + rest); s != nil {
		return inflate(o.raw(s.Offset, s.FileSize))
	}
	return nil
}

// raw is a part of the file, without copying it.
func (o *object) raw(offset, size uint64) []byte {
	if offset > uint64(len(o.data)) || size > uint64(len(o.data))-offset {
		return nil
	}
	return o.data[offset : offset+size : offset+size]
}

// inflate undoes .zdebug_ compression: "ZLIB", the size as 8 bytes, a zlib stream.
func inflate(data []byte) []byte {
	if len(data) < 12 || string(data[:4]) != "ZLIB" {
		return nil
	}
	reader, err := zlib.NewReader(bytes.NewReader(data[12:]))
	if err != nil {
		return nil
	}
	return readExactly(reader, binary.BigEndian.Uint64(data[4:]), uint64(len(data)))
}

// readExactly reads a decompressed section into one piece of memory; growing a buffer would need three times as much.
// A size that no compression reaches is damage, and must not be allocated.
func readExactly(reader io.Reader, size, compressed uint64) []byte {
	const mostRatio = 1100 // deflate's limit is 1032
	if size > compressed*mostRatio {
		return nil
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(reader, data); err != nil {
		return nil
	}
	return data
}

func (o *object) hasDebug() bool {
	return o != nil && (o.elf.Section(".debug_info") != nil && o.elf.Section(".debug_info").Type != elf.SHT_NOBITS ||
		o.elf.Section(".zdebug_info") != nil)
}

// buildID is the GNU build id in hex, "" when there is none.
func (o *object) buildID() string {
	if o == nil {
		return ""
	}
	for _, program := range o.elf.Progs {
		if program.Type != elf.PT_NOTE {
			continue
		}
		if id := noteBuildID(o.raw(program.Off, program.Filesz), o.elf.ByteOrder); id != "" {
			return id
		}
	}
	// A separate debug file keeps the program headers of the original, but not always the place of its notes.
	for _, s := range o.elf.Sections {
		if s.Type == elf.SHT_NOTE {
			if id := noteBuildID(o.raw(s.Offset, s.FileSize), o.elf.ByteOrder); id != "" {
				return id
			}
		}
	}
	return ""
}

func noteBuildID(notes []byte, order binary.ByteOrder) string {
	const headerBytes, typeBuildID = 12, 3
	for len(notes) >= headerBytes {
		nameSize, descSize, kind := order.Uint32(notes), order.Uint32(notes[4:]), order.Uint32(notes[8:])
		notes = notes[headerBytes:]
		nameEnd := (uint64(nameSize) + 3) &^ 3
		descEnd := nameEnd + (uint64(descSize)+3)&^3
		if nameEnd+uint64(descSize) > uint64(len(notes)) {
			return ""
		}
		if kind == typeBuildID && string(notes[:nameSize]) == "GNU\x00" {
			return hex.EncodeToString(notes[nameEnd : nameEnd+uint64(descSize)])
		}
		notes = notes[min(descEnd, uint64(len(notes))):]
	}
	return ""
}

// translator returns the function that turns run-time addresses within m into the file's own addresses: the mapping
// says which byte of the file is at an address, and the loadable segments say which address the file gave that byte.
func (o *object) translator(m *profile.Mapping) func(uint64) (uint64, bool) {
	return func(address uint64) (uint64, bool) {
		if o == nil || address < m.Start || m.Limit != 0 && address >= m.Limit {
			return 0, false
		}
		offset := address - m.Start + m.Offset
		var executable *elf.Prog
		for _, segment := range o.elf.Progs {
			if segment.Type != elf.PT_LOAD || segment.Flags&elf.PF_X == 0 {
				continue
			}
			executable = segment
			if !o.isDebugOnly() && offset >= segment.Off && offset-segment.Off < segment.Filesz {
				return offset - segment.Off + segment.Vaddr, true
			}
		}
		if executable == nil {
			return 0, false
		}
		// strip --only-keep-debug moves the segments' places in the file, but not their addresses. With the one
		// executable segment that linkers make, its first page is where the mapping starts.
		const pageMask = 4095
		return address - m.Start + executable.Vaddr&^pageMask, o.isDebugOnly()
	}
}

// isDebugOnly says whether the code itself was taken out, as in files under /usr/lib/debug.
func (o *object) isDebugOnly() bool {
	text := o.elf.Section(".text")
	return text != nil && text.Type == elf.SHT_NOBITS
}

func (o *object) dir() string { return filepath.Dir(o.path) }
