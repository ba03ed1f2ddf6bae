// Package unwind walks the stack of another process from its registers and a copy of the top of its stack. It uses the
// unwind tables (.eh_frame) in the process's files, while the kernel can only follow frame pointers. The library's own
// unwinder, which walks the stack on which it runs, is core/profile/unwind/unwind.h.
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

// DWARF register numbers of x86-64. The last one is the address of the next instruction.
const (
	framePointer, stackPointer, programCounter = 6, 7, 16

	RegisterCount = programCounter + 1
)

// Registers holds the registers of a thread.
type Registers [RegisterCount]uint64

// MaxFrames is the maximum number of frames. Longer stacks are truncated.
const MaxFrames = 512

// maxStackBytes is the maximum distance of a frame from the stack pointer. A register with a larger value does not
// point to a frame of the same stack.
const maxStackBytes = 8 << 20

// Outcome is the result of a walk.
type Outcome int

const (
	Complete  Outcome = iota
	Truncated         // truncated: the remaining frames are not in the copy of the stack, or exceed MaxFrames
	Broken            // the next frame is code without tables and frame pointers
)

// Code provides the unwind tables of a process's code.
type Code interface {
	// TablesOf returns the tables of the module that contains the address, or nil if there are none.
	TablesOf(address uint64) *Tables
	// IsCode reports whether executable code is mapped at the address.
	IsCode(address uint64) bool
}

// Tables are the entries of a module's .eh_frame.
type Tables struct {
	entries frame.FrameDescriptionEntries
	bias    uint64 // run-time address minus address in the file
	rules   map[uint64]*rule
}

// rule describes how to unwind the frame at one instruction. nil: unknown.
type rule struct {
	cfa       frame.DWRule
	registers []registerRule
	isTop     bool // the outermost function of a thread
	isSignal  bool // the caller's frame was interrupted by a signal: its address is not a return address
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

// NewTables parses a section at sectionAddress in the file. The result for a damaged section is empty.
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

// stackCopy is a copy of the memory above a stack pointer.
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

// isEnd reports whether the address lies behind the end of the copy and may still belong to the stack.
func (s stackCopy) isEnd(address uint64) bool {
	above := address - s.from
	return above >= uint64(len(s.bytes)) && above < maxStackBytes
}

// Walk returns the stack of a thread with these registers, innermost first. top is a copy of its stack from the stack
// pointer on. The addresses of callers are return addresses. For a frame that was interrupted by a signal the result is
// the address of the instruction plus one.
func Walk(code Code, registers Registers, top []byte) ([]uint64, Outcome) {
	stack := stackCopy{registers[stackPointer], top}
	frames := []uint64{registers[programCounter]}
	look := registers[programCounter] // address for the lookup of the rule
	for len(frames) < MaxFrames {
		rule := code.TablesOf(look).rule(look)
		next, outcome, isWhole := step(rule, registers, stack, code)
		if isWhole || outcome != Complete {
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
	return frames, Truncated
}

// step unwinds one frame. isTop: there is no caller.
func step(rule *rule, registers Registers, stack stackCopy, code Code) (next Registers, outcome Outcome, isTop bool) {
	if rule == nil {
		return stepByFramePointer(registers, stack, code)
	}
	if rule.isTop {
		return next, Complete, true
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
		return next, Complete, true
	}
	if next[stackPointer] <= registers[stackPointer] && !rule.isSignal { // the walk would never end
		return next, Broken, false
	}
	if !code.IsCode(next[programCounter] - 1) {
		return next, Broken, false
	}
	return next, Complete, false
}

// stepByFramePointer unwinds code without tables, such as code generated at run time.
func stepByFramePointer(registers Registers, stack stackCopy, code Code) (next Registers, outcome Outcome, isTop bool) {
	at := registers[framePointer]
	if at == 0 { // the outermost frame of code with frame pointers
		return next, Complete, true
	}
	if at < registers[stackPointer] || at%8 != 0 {
		return next, Broken, false
	}
	caller, _ := stack.word(at)
	back, ok := stack.word(at + 8)
	switch {
	case !ok && stack.isEnd(at+8):
		return next, Truncated, false
	case !ok || !code.IsCode(back-1):
		return next, Broken, false
	}
	next = registers
	next[framePointer], next[stackPointer], next[programCounter] = caller, at+16, back
	return next, Complete, false
}

// evaluator computes the caller's registers.
type evaluator struct {
	registers  Registers
	stack      stackCopy
	wantedMore bool // an access beyond the end of the copy
	cfa        uint64
}

func (e *evaluator) failure() Outcome {
	if e.wantedMore {
		return Truncated
	}
	return Broken
}

func (e *evaluator) word(address uint64) (uint64, bool) {
	value, ok := e.stack.word(address)
	e.wantedMore = e.wantedMore || !ok && e.stack.isEnd(address)
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

// value returns the register's value in the caller. now is its present value.
func (e *evaluator) value(of registerRule, now uint64) (uint64, bool) {
	how := of.how
	switch how.Rule {
	case frame.RuleUndefined, frame.RuleSameVal: // a register that need not be preserved for the caller
		return now, true
	case frame.RuleOffset:
		address := e.cfa + uint64(how.Offset)
		if of.number != programCounter && address < e.stack.from { // already popped, which the tables do not describe
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

// onCFA prepends the operation that pushes the frame's address, with which the expression of a register starts.
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
