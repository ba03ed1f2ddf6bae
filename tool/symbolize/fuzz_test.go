package symbolize

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// An ELF file of any bytes neither crashes nor hangs the reader of sections, symbols and debug information.
func FuzzObject(f *testing.F) {
	if vdso := ownVdso(); vdso != nil {
		f.Add(slices.Clone(vdso), uint64(0x600))
	}
	f.Fuzz(func(t *testing.T, data []byte, address uint64) {
		o := newObject(data, "FILE")
		if o == nil {
			return
		}
		addresses := []uint64{address}
		Safely(func() bool { // as the callers do: debug/elf and debug/dwarf panic on some damaged files
			findSymbols(addresses, withMiniDebug(o)...)
			return false
		})
		o.buildID()
		o.segments()
		known, found := &names{}, map[uint64][]frame{}
		Safely(func() bool {
			o.unwindTable()
			return Files{}.readDebug(addresses, &binaries{main: o, name: "FILE"}, nil, found, known)
		})
	})
}

// A cache entry is rejected, or encoding the result gives an entry with the same content.
func FuzzNames(f *testing.F) {
	n := &names{debug: true, missingSplit: []string{"/a.dwo"}, resolutions: map[uint64]resolution{
		0x1000: {how: lastSource, start: 0x1000, frames: []frame{{system: "_Z1fv", short: "f", display: "f()", file: "a.cc", line: 3, startLine: 1}}},
		0x2000: {},
	}}
	f.Add(encodeNames(n, "key")[headerBytes:])
	f.Fuzz(func(t *testing.T, body []byte) {
		got := readNames(&namesReader{data: body}, "key")
		if got == nil {
			return
		}
		again := decodeNames(encodeNames(got, "key"), "key")
		if again == nil || len(again.resolutions) != len(got.resolutions) || !reflect.DeepEqual(again.segments, got.segments) {
			t.Fatalf("%+v becomes %+v", got, again)
		}
	})
}

// A perf map gives a name only to an address within the range of a line.
func FuzzPerfMap(f *testing.F) {
	f.Add("7f0000001000 40 py::f:/a.py\n7f0000002000 10 LazyCompile:~g /b.js:1:2\n", uint64(0x7f0000001010))
	f.Add("0x10 ffffffffffffffff x\n", uint64(0x20))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		name, ok := scanPerfMap(strings.NewReader(text), []uint64{address})[address]
		if ok && !strings.Contains(text, name) {
			t.Fatalf("%q is not in %q", name, text)
		}
		generatedFrame(name)
	})
}

// The index of a package file gives only contributions within its tables.
func FuzzPackageIndex(f *testing.F) {
	index := make([]byte, 16+8+4)
	binary.LittleEndian.PutUint32(index, 5)
	binary.LittleEndian.PutUint32(index[4:], 1)
	f.Add(index, uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, id uint64) {
		if p := readUnitIndex(data, binary.LittleEndian); p != nil {
			p.find(id)
		}
	})
}

func FuzzKernel(f *testing.F) {
	f.Add("ffffffff81000000 T _text\nffffffff81000100 t do_mmap\t[mod]\n", uint64(0xffffffff81000110))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		if k, err := parseKernel(text); err == nil {
			k.Name(address)
		}
	})
}

func FuzzMapping(f *testing.F) {
	f.Add("00400000-00500000 r-xp 00000000 08:01 1    /bin/x y")
	f.Fuzz(func(t *testing.T, line string) {
		if m := parseMapping(line); m != nil && !strings.Contains(line, "x") {
			t.Fatalf("%q is not executable", line)
		}
	})
}

// The compressed symbol table of any bytes is rejected, or read within the limit of memory.
func FuzzMiniDebug(f *testing.F) {
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		f.Fatal(err)
	}
	w.Write(ownVdso())
	w.Close()
	f.Add(packed.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if o := unpackMiniDebug(data, "FILE"); o != nil {
			Safely(func() bool { findSymbols([]uint64{0x600}, o); return false })
		}
	})
}
