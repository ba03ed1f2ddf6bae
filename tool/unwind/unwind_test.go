package unwind_test

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/symbolize"
	"seemalloc/tool/testseed"
	"seemalloc/tool/unwind"
)

// mapped holds the code mappings of a process that has printed its /proc/self/maps.
type mapped struct {
	list   []*profile.Mapping
	tables map[*profile.Mapping]*unwind.Tables
}

func (c *mapped) find(address uint64) *profile.Mapping {
	for _, m := range c.list {
		if address >= m.Start && address < m.Limit {
			return m
		}
	}
	return nil
}

func (c *mapped) IsCode(address uint64) bool { return c.find(address) != nil }

func (c *mapped) TablesOf(address uint64) *unwind.Tables {
	m := c.find(address)
	if m == nil {
		return nil
	}
	if _, known := c.tables[m]; !known {
		c.tables[m] = nil
		if section, ok := symbolize.EhFrameOf(0, m); ok {
			c.tables[m] = unwind.NewTables(section.Data, section.Order, section.Address, section.Bias)
		}
	}
	return c.tables[m]
}

type place struct {
	name      string
	registers unwind.Registers
	backtrace []uint64
	stack     []byte
}

func numbers(t *testing.T, words string) []uint64 {
	t.Helper()
	var out []uint64
	for word := range strings.FieldsSeq(words) {
		n, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// dumped builds and runs testdata/frames.c.
func dumped(t *testing.T, flags ...string) ([]*place, *mapped) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are those of x86-64")
	}
	program := filepath.Join(t.TempDir(), "frames")
	if out, err := exec.Command("cc", append(flags, "testdata/frames.c", "-pthread", "-o", program)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var places []*place
	code := &mapped{tables: map[*profile.Mapping]*unwind.Tables{}}
	for line := range strings.Lines(string(out)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "place":
			places = append(places, &place{name: rest})
		case "registers":
			copy(places[len(places)-1].registers[:], numbers(t, rest))
		case "backtrace":
			places[len(places)-1].backtrace = numbers(t, rest)
		case "stack":
			if places[len(places)-1].stack, err = hex.DecodeString(rest); err != nil {
				t.Fatal(err)
			}
		case "maps":
		default:
			if fields := strings.Fields(line); strings.Contains(fields[1], "x") {
				from, to, _ := strings.Cut(fields[0], "-")
				m := &profile.Mapping{Start: numbers(t, from)[0], Limit: numbers(t, to)[0], Offset: numbers(t, fields[2])[0]}
				m.File = strings.Join(fields[5:], " ")
				code.list = append(code.list, m)
			}
		}
	}
	return places, code
}

// In each function the walk gives the same result as the C library's unwinder.
func TestWalk(t *testing.T) {
	for _, flags := range [][]string{{"-O2", "-fomit-frame-pointer"}, {"-O0"}, {"-O3", "-mavx", "-fno-pie", "-no-pie"}, {"-O2", "-fno-omit-frame-pointer"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			places, code := dumped(t, flags...)
			if len(places) != 6 {
				t.Fatalf("%d places", len(places))
			}
			for _, p := range places {
				frames, outcome := unwind.Walk(code, p.registers, p.stack)
				if outcome != unwind.Complete {
					t.Errorf("%s: outcome %d after %x", p.name, outcome, frames)
				}
				if p.name == "above code without tables" {
					// The C library's unwinder stops below this frame.
					if len(frames) < 5 || len(frames) < len(p.backtrace) {
						t.Errorf("%s: %x, backtrace says %x", p.name, frames, p.backtrace)
					}
					continue
				}
				if len(frames) != len(p.backtrace) {
					t.Errorf("%s: %x\nbacktrace says %x", p.name, frames, p.backtrace)
					continue
				}
				interrupted := 0
				for i := 1; i < len(frames); i++ {
					if frames[i] == p.backtrace[i]+1 {
						interrupted++
					} else if frames[i] != p.backtrace[i] {
						t.Errorf("%s, frame %d: %x, backtrace says %x", p.name, i, frames[i], p.backtrace[i])
					}
				}
				if want := map[string]int{"signal handler": 1}[p.name]; interrupted != want {
					t.Errorf("%s: %d frames interrupted, expected %d", p.name, interrupted, want)
				}
			}
		})
	}
}

// allCode has no tables, and treats everything below 1 MiB as code.
type allCode struct{}

func (allCode) TablesOf(uint64) *unwind.Tables { return nil }
func (allCode) IsCode(address uint64) bool     { return address < 1<<20 }

func TestFramePointers(t *testing.T) {
	const sp = 0x7f0000001000
	stack := make([]byte, 0x100)
	word := func(at, value uint64) { binary.LittleEndian.PutUint64(stack[at-sp:], value) }
	word(sp+0x10, sp+0x40) // the caller's frame and return address
	word(sp+0x18, 0x2000)
	word(sp+0x40, 0) // this frame's caller has no caller
	word(sp+0x48, 0x3000)
	word(sp+0x80, sp+0x40000) // a frame outside the copy
	word(sp+0x88, 0x4000)
	word(sp+0x90, sp+0x200) // not code
	word(sp+0x98, 1<<40)
	for _, test := range []struct {
		name   string
		rbp    uint64
		frames int
		want   unwind.Outcome
	}{
		{"none", 0, 1, unwind.Complete}, {"two", sp + 0x10, 3, unwind.Complete}, {"deeper than the copy", sp + 0x80, 2, unwind.Truncated},
		{"no code", sp + 0x90, 1, unwind.Broken}, {"below the stack", sp - 0x10, 1, unwind.Broken}, {"not aligned", sp + 0x11, 1, unwind.Broken},
		{"anything", 0x1234567890abcde8, 1, unwind.Broken},
	} {
		registers := unwind.Registers{6: test.rbp, 7: sp, 16: 0x1000}
		if frames, outcome := unwind.Walk(allCode{}, registers, stack); len(frames) != test.frames || outcome != test.want {
			t.Errorf("%s: %x, outcome %d; expected %d frames, outcome %d", test.name, frames, outcome, test.frames, test.want)
		}
	}
}

// With a partial copy the stack is truncated at the end of the copy, and the outcome reports that.
func TestTruncatedStackIsReported(t *testing.T) {
	places, code := dumped(t, "-O2")
	p := places[0]
	whole, _ := unwind.Walk(code, p.registers, p.stack)
	for bytes := 0; bytes < len(p.stack); bytes += 8 {
		frames, outcome := unwind.Walk(code, p.registers, p.stack[:bytes])
		if outcome == unwind.Complete && len(frames) == len(whole) {
			return
		}
		if outcome != unwind.Truncated || len(frames) > len(whole) {
			t.Fatalf("%d bytes: outcome %d, %d frames of %d", bytes, outcome, len(frames), len(whole))
		}
	}
	t.Error("never whole")
}

// For arbitrary registers, stacks and tables the walk terminates and does not panic.
func TestDamage(t *testing.T) {
	places, code := dumped(t, "-O2")
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 0))
	for range 20000 {
		p := places[random.IntN(len(places))]
		registers, stack := p.registers, append([]byte{}, p.stack...)
		for range random.IntN(4) {
			registers[random.IntN(len(registers))] ^= random.Uint64() >> random.IntN(64)
		}
		for range random.IntN(30) {
			stack[random.IntN(len(stack))] = byte(random.Uint32())
		}
		if frames, _ := unwind.Walk(code, registers, stack); len(frames) == 0 || len(frames) > unwind.MaxFrames {
			t.Fatalf("%d frames", len(frames))
		}
	}
	m := code.find(places[0].registers[16])
	section, ok := symbolize.EhFrameOf(0, code.find(places[0].registers[16]))
	if !ok {
		t.Fatal("the program has no unwind tables")
	}
	for range 2000 {
		data := append([]byte{}, section.Data...)
		for range 1 + random.IntN(20) {
			data[random.IntN(len(data))] = byte(random.Uint32())
		}
		code.tables[m] = unwind.NewTables(data[:random.IntN(len(data)+1)], binary.LittleEndian, section.Address, section.Bias)
		for _, p := range places {
			unwind.Walk(code, p.registers, p.stack)
		}
	}
}
