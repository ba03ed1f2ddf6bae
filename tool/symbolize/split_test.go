package symbolize

import (
	"debug/dwarf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// compileSplit builds the test program with its debug information in a .dwo file and returns both paths.
func compileSplit(t *testing.T, compiler string, flags ...string) (path, dwo string) {
	t.Helper()
	emptyCache(t)
	source, _ := filepath.Abs("testdata/marks.cc")
	dir := t.TempDir()
	path = filepath.Join(dir, "marks")
	command := exec.Command(compiler, append([]string{"-O2", "-g", "-gsplit-dwarf", "-Wl,--build-id", source, "-o", path}, flags...)...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.dwo"))
	if len(found) != 1 {
		t.Skipf("%s has made %v", compiler, found)
	}
	return path, found[0]
}

func TestSplitUnits(t *testing.T) {
	for name, names := range compilers {
		t.Run(name, func(t *testing.T) {
			path, dwo := compileSplit(t, tool(t, names...), "-gdwarf-5")
			program := start(t, path)
			id := idOf(t, path)
			look := func(files Files) (*profile.Profile, Result) {
				p := program.profile(t, id)
				return p, Profile(p, files)
			}
			// Without the .dwo file: lines, and names from the symbol table. They are valid only until the file
			// appears.
			if err := os.Rename(dwo, dwo+".away"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				p, result := look(Files{})
				if got := stack(p, "plain"); result.Symbol != len(program.marks) || !strings.HasPrefix(got, "plain_c marks.cc:") {
					t.Errorf("without the .dwo file: %s, %+v", got, result)
				}
			}
			if err := os.Rename(dwo+".away", dwo); err != nil {
				t.Fatal(err)
			}
			p, result := look(Files{})
			expectFull(t, func(mark string) string { return stack(p, mark) })
			if result.Known != 0 {
				t.Errorf("what was known is still used: %+v", result)
			}
			if _, result = look(Files{}); result.Known != len(program.marks) {
				t.Errorf("not remembered: %+v", result)
			}
			// In a directory of such files.
			emptyCache(t)
			elsewhere := t.TempDir()
			if err := os.Rename(dwo, filepath.Join(elsewhere, filepath.Base(dwo))); err != nil {
				t.Fatal(err)
			}
			p, _ = look(Files{DebugDirs: []string{elsewhere}})
			expectFull(t, func(mark string) string { return stack(p, mark) })
		})
	}
}

func TestSplitPackages(t *testing.T) {
	for name, names := range compilers {
		for _, packer := range []string{"llvm-dwp", "dwp"} {
			t.Run(name+" "+packer, func(t *testing.T) {
				path, dwo := compileSplit(t, tool(t, names...), "-gdwarf-5")
				// Some versions of llvm-dwp never finish with gcc's output. The limit is processor time, so that a busy
				// machine does not cause a skip.
				command := exec.Command("sh", "-c", `ulimit -t 10; exec "$@"`, "sh", tool(t, packer, packer+"-19", packer+"-14"), dwo, "-o", path+".dwp")
				if out, err := command.CombinedOutput(); err != nil {
					t.Skipf("%v\n%s", err, out)
				}
				o := openObject(path + ".dwp")
				defer o.close()
				if dwp := newPackageFile(o); dwp == nil {
					t.Skipf("%s does not know DWARF 5: its package file is empty", packer)
				}
				if err := os.Remove(dwo); err != nil {
					t.Fatal(err)
				}
				program := start(t, path)
				p := program.profile(t, idOf(t, path))
				Profile(p, Files{})
				expectFull(t, func(mark string) string { return stack(p, mark) })
			})
		}
	}
}

// handMadePackage writes a package file with one .dwo file behind some padding, so that every contribution has a nonzero
// offset.
func handMadePackage(t *testing.T, dwo, path string, id uint64) {
	t.Helper()
	objcopy := tool(t, "objcopy")
	o := openObject(dwo)
	defer o.close()
	const padding = 48
	columns := []struct {
		number uint32
		name   string
	}{{sectInfo, ".debug_info.dwo"}, {4, ".debug_line.dwo"}, {sectStrOffsets, ".debug_str_offsets.dwo"},
		{sectAbbrev, ".debug_abbrev.dwo"}, {sectRnglists, ".debug_rnglists.dwo"}}
	const units, slots = 2, 4
	le := binary.LittleEndian
	index := le.AppendUint32(nil, 5)
	for _, n := range []uint32{uint32(len(columns)), units, slots} {
		index = le.AppendUint32(index, n)
	}
	// The unit's first hash slot is occupied, so the unit is in its second slot.
	signatures, rows := make([]uint64, slots), make([]uint32, slots)
	first := id & (slots - 1)
	second := (first + (id>>32&(slots-1) | 1)) & (slots - 1)
	signatures[first], rows[first] = id+slots, 1
	signatures[second], rows[second] = id, 2
	for _, s := range signatures {
		index = le.AppendUint64(index, s)
	}
	for _, r := range rows {
		index = le.AppendUint32(index, r)
	}
	var numbers, offsets, sizes []byte
	args := []string{}
	for _, column := range columns {
		data := o.section(column.name)
		padded := filepath.Join(t.TempDir(), "section")
		if err := os.WriteFile(padded, append(make([]byte, padding), data...), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--update-section", column.name+"="+padded)
		numbers = le.AppendUint32(numbers, column.number)
		offsets = le.AppendUint32(offsets, padding)
		sizes = le.AppendUint32(sizes, uint32(len(data)))
	}
	none := make([]byte, len(sizes))
	for _, part := range [][]byte{numbers, none, offsets, none, sizes} {
		index = append(index, part...)
	}
	file := filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(file, index, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, objcopy, append(args, "--add-section", ".debug_cu_index="+file, dwo, path)...)
}

func TestSyntheticSplitPackage(t *testing.T) {
	path, dwo := compileSplit(t, tool(t, "g++"), "-gdwarf-5")
	o := openObject(dwo)
	roots := unitRoots(o.section(".debug_info.dwo"), binary.LittleEndian)
	o.close()
	if len(roots) != 1 || roots[0].kind != unitSplitCompile || roots[0].id == 0 {
		t.Fatalf("%+v", roots)
	}
	handMadePackage(t, dwo, path+".dwp", roots[0].id)
	if err := os.Remove(dwo); err != nil {
		t.Fatal(err)
	}
	program := start(t, path)
	p := program.profile(t, idOf(t, path))
	Profile(p, Files{})
	expectFull(t, func(mark string) string { return stack(p, mark) })

	dwp := newPackageFile(openObject(path + ".dwp"))
	defer dwp.object.close()
	for _, id := range []uint64{roots[0].id + 1, roots[0].id + 8, 0} {
		if dwp.find(id) != nil {
			t.Errorf("found unit %#x, which is not there", id)
		}
	}
	// A damaged index is never read beyond its end.
	whole := dwp.index
	for i := range whole {
		for _, b := range []byte{0, 1, 0x7f, 0xff} {
			damaged := slices.Clone(whole)
			damaged[i] = b
			if p := readUnitIndex(damaged, dwp.order); p != nil {
				p.sections = dwp.sections
				p.find(roots[0].id)
			}
		}
		if p := readUnitIndex(whole[:i], dwp.order); p != nil {
			t.Errorf("cut at %d, and read", i)
		}
	}
}

// Before DWARF 5 splitting was an extension, which is not supported. The data in the program itself must still be used.
func TestSplitUnitsBeforeDWARF5(t *testing.T) {
	path, _ := compileSplit(t, tool(t, "g++"), "-gdwarf-4")
	program := start(t, path)
	p := program.profile(t, idOf(t, path))
	Profile(p, Files{})
	if got := stack(p, "plain"); !strings.HasPrefix(got, "plain_c marks.cc:") {
		t.Errorf("got %s", got)
	}
}

// The file of another build at the same path has another id.
func TestSplitUnitOfAnotherBuild(t *testing.T) {
	compiler := tool(t, "g++")
	path, dwo := compileSplit(t, compiler, "-gdwarf-5")
	_, other := compileSplit(t, compiler, "-gdwarf-5", "-DOTHER", "-O1")
	program := start(t, path)
	if err := os.Rename(other, dwo); err != nil {
		t.Fatal(err)
	}
	p := program.profile(t, idOf(t, path))
	if result := Profile(p, Files{}); result.Debug != 0 || result.Symbol != len(program.marks) {
		t.Errorf("%+v", result)
	}
}

func TestRangeLists(t *testing.T) {
	address := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 0x1000), 0x2000)
	word := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	for _, test := range []struct {
		list string
		want [][2]uint64
	}{
		{"\x04\x01\x03\x00", [][2]uint64{{0x101, 0x103}}},
		{"\x01\x01\x04\x10\x20\x00", [][2]uint64{{0x2010, 0x2020}}},
		{"\x02\x00\x01\x03\x01\x05\x00", [][2]uint64{{0x1000, 0x2000}, {0x2000, 0x2005}}},
		{"\x05" + word(0x5000) + "\x04\x01\x02\x00", [][2]uint64{{0x5001, 0x5002}}},
		{"\x06" + word(7) + word(9) + "\x07" + word(16) + "\x04\x00", [][2]uint64{{7, 9}, {16, 20}}},
		{"\x03\x02\x01\x00", nil}, // no third address
		{"\x04\x01", nil},         // truncated
		{"\x06" + word(7), nil},   // truncated
		{"\x63\x00", nil},         // no such kind
		{"", nil},
	} {
		k := &skeleton{base: 0x100, address: address, rnglists: []byte("xxxx" + test.list)}
		entry := &dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrRanges, Val: uint64(4)}}}
		if got := k.ranges(entry, binary.LittleEndian); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: got %#x, want %#x", test.list, got, test.want)
		}
	}
	for _, value := range []any{int64(-5), int64(1000), uint64(1 << 63), "x"} {
		entry := &dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrRanges, Val: value}}}
		if got := (&skeleton{rnglists: []byte{0}}).ranges(entry, binary.LittleEndian); got != nil {
			t.Errorf("%v: %v", value, got)
		}
	}
}
