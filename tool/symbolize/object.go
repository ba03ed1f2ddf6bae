package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// object is one ELF file in memory. All methods may be called on nil, which finds nothing.
type object struct {
	elf      *elf.File
	data     []byte // the whole file
	isMapped bool   // data is a memory map
	path     string // path from which it was opened
	identity string // of the file; changes if the file is modified
	modified time.Time
}

// openObject maps the file at path. It returns nil if the file is not a readable ELF file.
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
	o := newObject(data, path)
	if o == nil {
		_ = unix.Munmap(data)
		return nil
	}
	o.isMapped, o.modified = true, info.ModTime()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		o.identity = fmt.Sprintf("file %d:%d, %d bytes, written %d.%09d, changed %d.%09d",
			stat.Dev, stat.Ino, stat.Size, stat.Mtim.Sec, stat.Mtim.Nsec, stat.Ctim.Sec, stat.Ctim.Nsec)
	}
	return o
}

// newObject parses an ELF file in memory. It returns nil if data is not one.
func newObject(data []byte, path string) *object {
	parsed, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	return &object{elf: parsed, data: data, path: path}
}

// openWithID opens a file if it has that build id.
func openWithID(path, id string) *object {
	if path == "" {
		return nil
	}
	o := openObject(path)
	if o != nil && o.buildID() != id {
		o.close()
		return nil
	}
	return o
}

func (o *object) close() {
	if o != nil && o.isMapped {
		_ = unix.Munmap(o.data)
		o.data, o.isMapped = nil, false
	}
}

// orElse returns o, or other if o is nil.
func (o *object) orElse(other *object) *object {
	if o != nil {
		return o
	}
	return other
}

// section returns the bytes of a section, decompressed if necessary, or nil if it does not exist. It also finds
// sections with the older prefix .zdebug_.
func (o *object) section(name string) []byte {
	if o == nil {
		return nil
	}
	if s := o.elf.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
		if s.Flags&elf.SHF_COMPRESSED == 0 {
			return o.raw(s.Offset, s.FileSize)
		}
		if o.elf.Class != elf.ELFCLASS64 {
			return readExactly(s.Open(), s.Size, s.FileSize)
		}
		return unpack(o.raw(s.Offset, s.FileSize), o.elf.ByteOrder)
	}
	rest, ok := strings.CutPrefix(name, ".debug_")
	if !ok {
		return nil
	}
	if s := o.elf.Section(".zdebug_" + rest); s != nil {
		return unpackOlder(o.raw(s.Offset, s.FileSize))
	}
	return nil
}

// sections reads several sections in parallel, since the decompression of one can take seconds. It returns nil if the
// file is damaged.
func (o *object) sections(names ...string) map[string][]byte {
	found := make([][]byte, len(names))
	damaged := make([]bool, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			damaged[i] = Safely(func() bool { found[i] = o.section(name); return false })
		})
	}
	group.Wait()
	if slices.Contains(damaged, true) {
		return nil
	}
	byName := map[string][]byte{}
	for i, name := range names {
		byName[name] = found[i]
	}
	return byName
}

// raw returns a part of the file without copying it.
func (o *object) raw(offset, size uint64) []byte {
	if offset > uint64(len(o.data)) || size > uint64(len(o.data))-offset {
		return nil
	}
	return o.data[offset : offset+size : offset+size]
}

// unpack decompresses a section with SHF_COMPRESSED in a 64-bit file: a header (Elf64_Chdr) and a stream.
func unpack(data []byte, order binary.ByteOrder) []byte {
	const headerBytes = 24
	if len(data) < headerBytes {
		return nil
	}
	size, stream := order.Uint64(data[8:]), data[headerBytes:]
	switch elf.CompressionType(order.Uint32(data)) {
	case elf.COMPRESS_ZLIB:
		return inflate(stream, size)
	case elf.COMPRESS_ZSTD:
		return unpackZstd(stream, size)
	}
	return nil
}

// unpackOlder decompresses a .zdebug_ section: "ZLIB", the size in 8 bytes, and a zlib stream.
func unpackOlder(data []byte) []byte {
	if len(data) < 12 || string(data[:4]) != "ZLIB" {
		return nil
	}
	return inflate(data[12:], binary.BigEndian.Uint64(data[4:]))
}

func inflate(stream []byte, size uint64) []byte {
	reader, err := zlib.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil
	}
	return readExactly(reader, size, uint64(len(stream)))
}

func unpackZstd(stream []byte, size uint64) []byte {
	reader, err := zstd.NewReader(bytes.NewReader(stream), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil
	}
	defer reader.Close()
	return readExactly(reader, size, uint64(len(stream)))
}

// readExactly reads a decompressed section into one allocation. A growing buffer would need three times the memory. If
// the stated size exceeds any possible compression ratio, the file is damaged and the memory is not allocated.
func readExactly(reader io.Reader, size, compressed uint64) []byte {
	const maxRatio = 1100 // the maximum ratio of deflate is 1032
	if size > compressed*maxRatio {
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

// buildID returns the GNU build id in hex, or "" if there is none.
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
	// A separate debug file has the program headers of the original, but its notes may be at a different offset.
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

// isDebugOnly reports whether the code has been stripped, as in files under /usr/lib/debug.
func (o *object) isDebugOnly() bool {
	text := o.elf.Section(".text")
	return text != nil && text.Type == elf.SHT_NOBITS
}

func (o *object) dir() string { return filepath.Dir(o.path) }
