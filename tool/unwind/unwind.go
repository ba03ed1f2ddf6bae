// Package unwind walks the stacks of another process, from its registers and a copy of the top of its stack, by the unwind tables
// (.eh_frame) in its files: what the kernel, which follows frame pointers only, cannot. The library's own unwinder, which walks the stack
// that it runs on, is core/profile/unwind.h.
package unwind

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/go-delve/delve/pkg/dwarf/frame"
	"github.com/go-delve/delve/pkg/dwarf/op"

	"seemalloc/tool/symbolize"
)

// By their numbers in x86-64's DWARF; the last is the address of the next instruction.
const (
	framePointer, stackPointer, programCounter = 6, 7, 16

	RegisterCount = programCounter + 1
)

// Registers of a thread.
type Registers [RegisterCount]uint64

// MaxFrames of one stack; it is cut there.
const MaxFrames = 512

// mostOfAStack: what lies farther above the stack pointer is no frame of the same stack, but something else in a register.
const mostOfAStack = 8 << 20

// Outcome says how a walk has ended.
type Outcome int

const (
	Whole  Outcome = iota
	Cut            // there is more above, which the copy of the stack has not, or MaxFrames
	Broken         // above is code without tables and frame pointers
)

// Code knows the unwind tables of the code that a process has mapped.
type Code interface {
	// TablesOf the module that holds the address; nil where there are none.
	TablesOf(address uint64) *Tables
	// IsCode tells whether something that runs is mapped there.
	IsCode(address uint64) bool
}

// Tables are the entries of a module's .eh_frame.
type Tables struct {
	entries frame.FrameDescriptionEntries
	bias    uint64 // of the addresses that it runs at above its file's
	rules   map[uint64]*rule
}

// rule is how to leave one instruction's frame; nil: nothing is known.
type rule struct {
	cfa       frame.DWRule
	registers []registerRule
	isTop     bool // the first function of a thread
	isSignal  bool // the frame above was interrupted: its address is no return address
}

type registerRule struct {
	number uint64
	how    frame.DWRule
}

func newRule(context *frame.FrameContext, augmentation string) *rule {
	back, known := context.Regs[context.RetAddrReg]
	r := &rule{cfa: context.CFA, isTop: !known || back.Rule == frame.RuleUndefined, isSignal: strings.Contains(augmentation, "S")}
	for number, how := range context.Regs {
		if number < RegisterCount {
			r.registers = append(r.registers, registerRule{number, how})
		}
	}
	return r
}

// NewTables reads a section that the file has at sectionAddress. Damaged ones have what could be read of them: nothing.
func NewTables(section []byte, order binary.ByteOrder, sectionAddress, bias uint64) *Tables {
	t := &Tables{bias: bias, rules: map[uint64]*rule{}}
	symbolize.Safely(func() bool {
		entries, err := frame.Parse(section, order, 0, 8, sectionAddress)
		slices.SortStableFunc(entries, func(a, b *frame.FrameDescriptionEntry) int { return cmp.Compare(a.Begin(), b.Begin()) })
		if err == nil {
			t.entries = entries
		}
		return err != nil
	})
	return t
}

func (t *Tables) rule(address uint64) *rule {
	if t == nil {
		return nil
	}
	if known, is := t.rules[address]; is {
		return known
	}
	var found *rule
	symbolize.Safely(func() bool {
		entry, err := t.entries.FDEForPC(address - t.bias)
		if err != nil {
			return true
		}
		context, err := entry.EstablishFrame(address - t.bias)
		if err == nil {
			found = newRule(context, entry.CIE.Augmentation)
		}
		return err != nil
	})
	t.rules[address] = found
	return found
}

// stackCopy is the memory from a stack pointer on.
type stackCopy struct {
	from  uint64
	bytes []byte
}

func (s stackCopy) word(address uint64) (uint64, bool) {
	at := address - s.from
	if at >= uint64(len(s.bytes)) || uint64(len(s.bytes))-at < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.bytes[at:]), true
}

// ends tells whether the copy does before this address, which may be the stack's.
func (s stackCopy) ends(address uint64) bool {
	above := address - s.from
	return above >= uint64(len(s.bytes)) && above < mostOfAStack
}

// Walk returns the stack of a thread with these registers, innermost first; `top` is its stack from the stack pointer on. Addresses of callers
// are those that they return to; of a frame that a signal has interrupted one more than the instruction's.
func Walk(code Code, registers Registers, top []byte) ([]uint64, Outcome) {
	stack := stackCopy{registers[stackPointer], top}
	frames := []uint64{registers[programCounter]}
	look := registers[programCounter] // where its rule is looked up
	for len(frames) < MaxFrames {
		rule := code.TablesOf(look).rule(look)
		next, outcome, isWhole := step(rule, registers, stack, code)
		if isWhole || outcome != Whole {
			return frames, outcome
		}
		registers = next
		look = registers[programCounter] - 1
		frames = append(frames, registers[programCounter])
		if rule != nil && rule.isSignal {
			look++
			frames[len(frames)-1]++
		}
	}
	return frames, Cut
}

// step leaves one frame. isTop: there is none above it.
func step(rule *rule, registers Registers, stack stackCopy, code Code) (next Registers, outcome Outcome, isTop bool) {
	if rule == nil {
		return stepByFramePointer(registers, stack, code)
	}
	if rule.isTop {
		return next, Whole, true
	}
	e := evaluator{registers, stack, false, 0}
	if !e.frameAddress(rule.cfa) {
		return next, e.failure(), false
	}
	next = registers
	next[stackPointer] = e.cfa
	for _, of := range rule.registers {
		value, ok := e.value(of, registers[of.number])
		if !ok {
			return next, e.failure(), false
		}
		next[of.number] = value
	}
	if next[programCounter] == 0 {
		return next, Whole, true
	}
	if next[stackPointer] <= registers[stackPointer] && !rule.isSignal { // it would never end
		return next, Broken, false
	}
	if !code.IsCode(next[programCounter] - 1) {
		return next, Broken, false
	}
	return next, Whole, false
}

// stepByFramePointer leaves code without tables, as compilers make at run time.
func stepByFramePointer(registers Registers, stack stackCopy, code Code) (next Registers, outcome Outcome, isTop bool) {
	at := registers[framePointer]
	if at == 0 { // what keeps frame pointers begins a stack so
		return next, Whole, true
	}
	if at < registers[stackPointer] || at%8 != 0 {
		return next, Broken, false
	}
	caller, _ := stack.word(at)
	back, ok := stack.word(at + 8)
	switch {
	case !ok && stack.ends(at+8):
		return next, Cut, false
	case !ok || !code.IsCode(back-1):
		return next, Broken, false
	}
	next = registers
	next[framePointer], next[stackPointer], next[programCounter] = caller, at+16, back
	return next, Whole, false
}

// evaluator finds a caller's registers.
type evaluator struct {
	registers  Registers
	stack      stackCopy
	wantedMore bool // than the copy has
	cfa        uint64
}

func (e *evaluator) failure() Outcome {
	if e.wantedMore {
		return Cut
	}
	return Broken
}

func (e *evaluator) word(address uint64) (uint64, bool) {
	value, ok := e.stack.word(address)
	e.wantedMore = e.wantedMore || !ok && e.stack.ends(address)
	return value, ok
}

func (e *evaluator) frameAddress(how frame.DWRule) bool {
	switch {
	case how.Rule == frame.RuleCFA && how.Reg < RegisterCount:
		e.cfa = e.registers[how.Reg] + uint64(how.Offset)
		return true
	case how.Rule == frame.RuleExpression:
		value, ok := e.expression(how.Expression)
		e.cfa = value
		return ok
	}
	return false
}

// value is what the register has in the caller; `now` what it has.
func (e *evaluator) value(of registerRule, now uint64) (uint64, bool) {
	how := of.how
	switch how.Rule {
	case frame.RuleUndefined, frame.RuleSameVal: // of a register that its caller does not want kept
		return now, true
	case frame.RuleOffset:
		address := e.cfa + uint64(how.Offset)
		if of.number != programCounter && address < e.stack.from { // it has been popped: the tables do not say so
			return now, true
		}
		return e.word(address)
	case frame.RuleValOffset:
		return e.cfa + uint64(how.Offset), true
	case frame.RuleRegister:
		if how.Reg < RegisterCount {
			return e.registers[how.Reg], true
		}
	case frame.RuleExpression:
		if address, ok := e.expression(onCFA(how.Expression)); ok {
			return e.word(address)
		}
	case frame.RuleValExpression:
		return e.expression(onCFA(how.Expression))
	}
	return 0, false
}

// onCFA: a register's expression begins with the frame's address on its stack.
func onCFA(program []byte) []byte { return append([]byte{byte(op.DW_OP_call_frame_cfa)}, program...) }

func (e *evaluator) expression(program []byte) (uint64, bool) {
	var registers []*op.DwarfRegister
	for _, value := range e.registers {
		registers = append(registers, op.DwarfRegisterFromUint64(value))
	}
	known := op.NewDwarfRegisters(0, registers, binary.LittleEndian, programCounter, stackPointer, framePointer, 0)
	known.CFA = int64(e.cfa)
	value := int64(0)
	failed := symbolize.Safely(func() bool {
		var err error
		value, _, err = op.ExecuteStackProgram(*known, program, 8, func(to []byte, address uint64) (int, error) {
			word, ok := e.word(address)
			if !ok || len(to) > 8 {
				return 0, op.ErrMemoryReadUnavailable
			}
			var bytes [8]byte
			binary.LittleEndian.PutUint64(bytes[:], word)
			return copy(to, bytes[:]), nil
		})
		return err != nil
	})
	return uint64(value), !failed
}
