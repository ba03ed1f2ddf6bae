// Walks the calling thread's stack frame by frame: by a cached rule, else by a row of the unwind
// tables, else by frame pointer.
//
// Called when an allocation is sampled, and by the CPU sampler's signal handler. Threads: any; all
// state is on the stack that is walked. Invariants: 1. no lock, no allocation, no change of errno.
// 2. memory is only read through StackMemory, and, for unwind tables, in modules that contain a pc
// of this stack. 3. after a step that was a guess (frame pointer), everything is untrusted: tables
// and other stacks are then read by system calls that cannot fault.
#include "core/profile/unwind/unwind.h"
#include "core/base/check.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/code/eh_frame.h"
#include "core/profile/code/modules.h"
#include "core/profile/code/registers.h"
#include "core/profile/python/python_frames.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/call_site.h"
#include "core/profile/unwind/expression.h"
#include "core/profile/unwind/signal_return.h"
#include "core/profile/unwind/stack_cache.h"
#include "core/profile/unwind/stack_memory.h"
#include "core/profile/unwind/unwind_rule.h"
#include "core/profile/unwind/unwind_rule_cache.h"

// The process's initial stack pointer. Defined by glibc.
extern "C" {
extern void* __libc_stack_end __attribute__((weak));
}

namespace seemalloc::profile {
namespace {

constinit UnwindRuleCache rule_cache;

// The lowest pc that user code can have, and the highest plus 1.
constexpr uintptr_t kLowestPc = 4096, kHighestPc = uintptr_t{1} << 56;

// The start of a walk: the caller of this code, or the code that a signal interrupted.
enum class Start { kHere, kInterrupted };

class Walk {
 public:
  enum class Step { kFrame, kEnd, kBroken };

  Walk(const Registers& registers, WalkDependencies* notes)
      : registers_(registers), memory_(registers.sp()), notes_(notes) {
    if (!memory_.is_own_stack()) notes_->abandon();
  }

  // Whether the registers point at a stack. Checked before the first step if the registers may have
  // any value.
  bool starts_on_a_stack() const { return memory_.is_mapped(); }
  // Moves to the caller's frame. kEnd: there is no caller; this was the thread's first frame.
  Step step();
  const StackMemory& memory() const { return memory_; }
  uintptr_t sp() const { return registers_.sp(); }
  uintptr_t pc() const { return registers_.pc(); }
  // The pc as in Stack::pcs: past the instruction that runs, also if a signal came before that
  // instruction.
  uintptr_t return_address() const { return registers_.pc() + (exact_pc_ ? 1 : 0); }

 private:
  bool is_current(UnwindRule rule, uintptr_t pc, const Module& module) const;
  Step step_by_rule(UnwindRule rule, const Module* module);
  Step step_by_marker_rule(UnwindRule mark, const Module* module);
  bool load_slots(uint32_t slots, uintptr_t cfa);
  bool make_rule(uintptr_t pc, const Module& module, UnwindRule* rule, Step* taken);
  Step step_by_row(const Row& row);
  bool step_by_first_instruction(const Module& module, Step* taken);
  Step step_by_guess();
  Step step_by_frame_pointer();
  Step step_by_stack_top(uintptr_t return_slot);
  uintptr_t return_slot_on_top();
  bool is_return_address_at(uintptr_t address);
  Step step_without_row(const Module* module);
  Step step_outside_modules();
  Step step_by_signal_return();
  void cache_rowless(const Module& module);
  Step set_caller(uintptr_t return_address, uintptr_t cfa);
  bool cfa_of(const Row& row, uintptr_t* cfa);
  bool recover(const Row& row, unsigned number, uintptr_t cfa, Registers* caller);

  Registers registers_;
  StackMemory memory_;
  WalkDependencies* notes_;
  ModuleCache modules_;
  // The pc is not a return address: the start, or code interrupted by a signal.
  bool exact_pc_ = true;
  bool on_frame_pointers_ = false;  // the last step was by frame pointer
  bool trusted_ = true;             // no step so far was a guess
  // The module of the current frame cannot be unloaded during the walk.
  bool tables_trusted_ = true;
};

Walk::Step Walk::step() {
  // A return address may be past its function's last instruction. So the address of the call is
  // looked up.
  uintptr_t pc = registers_.pc() - (exact_pc_ ? 0 : 1);
  const Module* module = modules_.find(pc);
  if (SEEMALLOC_UNLIKELY(module == nullptr)) return step_outside_modules();
  notes_->add_code(pc, *module);
  tables_trusted_ = trusted_ || module->permanent;
  UnwindRule rule{rule_cache.find(pc ^ module->identity_hash)};
  if (SEEMALLOC_UNLIKELY(!rule.exists() || !is_current(rule, pc, *module))) {
    Step taken;
    if (!make_rule(pc, *module, &rule, &taken)) return step_without_row(module);
    if (!rule.exists()) return taken;
  }
  return step_by_rule(rule, module);
}

// Makes a rule from the unwind tables. Returns false if they have no row for `pc`. If the row does
// not fit into a rule, takes the step by the row itself and stores the result in *taken.
// Not part of step(), because a row is large and the stack may be small.
SEEMALLOC_NOINLINE bool Walk::make_rule(uintptr_t pc, const Module& module, UnwindRule* rule,
                                        Step* taken) {
  Row row;
  if (!find_row(module, pc, tables_trusted_, &row)) return false;
  uint16_t tag;
  *rule = code_tag(pc, tables_trusted_, &tag) ? pack(row, tag) : UnwindRule{};
  if (rule->exists()) {
    rule_cache.insert(pc ^ module.identity_hash, rule->bits);
  } else {
    *taken = step_by_row(row);
  }
  return true;
}

// Whether the rule was made for the code that is mapped there now. Code that cannot be unloaded is
// not checked. Nor is untrusted code: a wrong rule for a guessed frame spoils that one stack only.
bool Walk::is_current(UnwindRule rule, uintptr_t pc, const Module& module) const {
  if (SEEMALLOC_LIKELY(module.permanent) || !tables_trusted_) return true;
  uint16_t tag;
  return code_tag(pc, true, &tag) && rule.tag() == tag;
}

// Checks the caller's pc, and sets pc and sp. kEnd: the return address is null.
Walk::Step Walk::set_caller(uintptr_t return_address, uintptr_t cfa) {
  uintptr_t pc = strip_pointer_authentication(return_address);
  if (pc == 0) return Step::kEnd;
  if (pc < kLowestPc || pc >= kHighestPc) return Step::kBroken;
  registers_.set(kPc, pc);
  registers_.set(kSp, cfa);
  return Step::kFrame;
}

// Loads the saved registers. Returns false if they cannot be read.
SEEMALLOC_ALWAYS_INLINE bool Walk::load_slots(uint32_t slots, uintptr_t cfa) {
  constexpr uint32_t kSlotMask = (1u << kSlotBits) - 1;
  bool near = kMaxSlotBytes < 256 && memory_.covers(cfa - kMaxSlotBytes);
  if (SEEMALLOC_LIKELY(near && (registers_.known & kCalleeSaved) == kCalleeSaved)) {
    // Branch-free, because the set of saved registers is unpredictable. A register that was not
    // saved is loaded from itself.
#pragma GCC unroll 8
    for (unsigned i = 0; i < kSlotCount; i++) {
      uintptr_t slot = slots >> (i * kSlotBits) & kSlotMask;
      uintptr_t* value = &registers_.value[kSlotRegisters[i]];
      uintptr_t from =
          slot == 0 ? reinterpret_cast<uintptr_t>(value) : cfa - slot * sizeof(uintptr_t);
      *value = StackMemory::load(from);
    }
    return true;
  }
  for (unsigned i = 0; slots != 0; i++, slots >>= kSlotBits) {
    uintptr_t slot = slots & kSlotMask, value;
    if (slot == 0) continue;
    if (!memory_.read(cfa - slot * sizeof(uintptr_t), &value)) return false;
    registers_.set(kSlotRegisters[i], value);
  }
  return true;
}

// Steps by a rule that is a mark: it only tells the kind of code.
Walk::Step Walk::step_by_marker_rule(UnwindRule mark, const Module* module) {
  if (mark.is_first_frame()) return Step::kEnd;
  return exact_pc_ ? step_without_row(module) : step_by_guess();
}

SEEMALLOC_ALWAYS_INLINE Walk::Step Walk::step_by_rule(UnwindRule rule, const Module* module) {
  if (SEEMALLOC_UNLIKELY(rule.is_mark())) return step_by_marker_rule(rule, module);
  on_frame_pointers_ = false;
  unsigned base = rule.cfa_register();
  if (SEEMALLOC_UNLIKELY(!registers_.has(base))) return Step::kBroken;
  uintptr_t cfa = registers_.value[base] + static_cast<uintptr_t>(rule.cfa_offset());
  // Only interrupted code can have a frame of size zero, and only on machines whose call
  // instruction does not push.
  uintptr_t lowest = registers_.sp() - (exact_pc_ ? 1 : 0);
  if (cfa % sizeof(uintptr_t) != 0 || !memory_.follow(lowest, cfa)) return Step::kBroken;
  if (!memory_.is_own_stack()) notes_->abandon();
  notes_->add_cfa_base(base, registers_);
#if defined(__x86_64__)
  uintptr_t return_address;
  if (!memory_.read(cfa - sizeof(uintptr_t), &return_address)) return Step::kBroken;
  notes_->read(cfa - sizeof(uintptr_t), return_address);
#endif
  if (!load_slots(rule.slots(), cfa)) return Step::kBroken;
#if defined(__aarch64__)
  if (!registers_.has(kLr)) return Step::kBroken;
  uintptr_t return_address = registers_.value[kLr];
  uintptr_t return_slot = rule.slot(kReturnSlot);
  return_slot != 0 ? notes_->read(cfa - return_slot * sizeof(uintptr_t), return_address)
                   : notes_->abandon();
#endif
  uintptr_t frame_slot = rule.slot(kFrameSlot);
  if (frame_slot != 0) notes_->set_frame_pointer_slot(cfa - frame_slot * sizeof(uintptr_t));
  uint64_t kept = kCalleeSaved & ~(rule.loses_registers() ? kCalleeSaved & ~register_bit(kFp) : 0);
  registers_.known &= kept;
  exact_pc_ = false;
  return set_caller(return_address, cfa);
}

bool Walk::cfa_of(const Row& row, uintptr_t* cfa) {
  if (row.cfa_is_expression) {
    auto block = static_cast<uintptr_t>(row.cfa_value);
    return evaluate_expression(block, tables_trusted_, registers_, memory_, nullptr, cfa);
  }
  if (!registers_.has(row.cfa_register)) return false;
  *cfa = registers_.value[row.cfa_register] + static_cast<uintptr_t>(row.cfa_value);
  return true;
}

// Stores the caller's value of one register in `caller`; leaves it unknown if it is lost. Returns
// false if it cannot be read.
bool Walk::recover(const Row& row, unsigned number, uintptr_t cfa, Registers* caller) {
  uintptr_t value = 0;
  auto block = static_cast<uintptr_t>(row.value[number]);
  switch (row.rules[number]) {
    case RegisterRule::kUndefined: return true;
    case RegisterRule::kSame:
      if (!registers_.has(number)) return true;
      value = registers_.value[number];
      break;
    case RegisterRule::kInRegister:
      if (block >= kRegisterCount || !registers_.has(static_cast<unsigned>(block))) return true;
      value = registers_.value[block];
      break;
    case RegisterRule::kIsOffset: value = cfa + block; break;
    case RegisterRule::kAtOffset:
      if (!memory_.read(cfa + block, &value)) return false;
      break;
    case RegisterRule::kIsExpression:
      if (!evaluate_expression(block, tables_trusted_, registers_, memory_, &cfa, &value))
        return false;
      break;
    case RegisterRule::kAtExpression: {
      uintptr_t address;
      if (!evaluate_expression(block, tables_trusted_, registers_, memory_, &cfa, &address))
        return false;
      if (!memory_.read(address, &value)) return false;
      break;
    }
  }
  caller->set(number, value);
  return true;
}

Walk::Step Walk::step_by_row(const Row& row) {
  notes_->abandon();
  on_frame_pointers_ = false;
  if (row.rules[row.return_register] == RegisterRule::kUndefined) return Step::kEnd;
  uintptr_t cfa;
  if (!cfa_of(row, &cfa) || cfa % sizeof(uintptr_t) != 0) return Step::kBroken;
  uintptr_t lowest = registers_.sp() - (exact_pc_ ? 1 : 0);
  if (!row.signal_frame && !memory_.follow(lowest, cfa)) return Step::kBroken;
  Registers caller;
  caller.known = 0;
  for (unsigned i = 0; i < kRegisterCount; i++) {
    // A caller-saved register is unknown unless the row tells where it is.
    bool lost = row.rules[i] == RegisterRule::kSame && (kCalleeSaved & register_bit(i)) == 0 &&
                i != row.return_register;
    if (!lost && i != kSp && !recover(row, i, cfa, &caller)) return Step::kBroken;
  }
  if (!caller.has(row.return_register)) return Step::kBroken;
#if defined(__x86_64__)
  if (row.rules[kPc] == RegisterRule::kSame) return Step::kBroken;
#endif
  registers_ = caller;
  if (!row.signal_frame) registers_.known &= kCalleeSaved;
  if (row.signal_frame && !memory_.follow_signal(cfa)) return Step::kBroken;
  exact_pc_ = row.signal_frame;
  return set_caller(caller.value[row.return_register], cfa);
}

// The dynamic linker's start code, which calls the libraries' constructors, has no unwind entry.
// Its stack pointer is the one that the kernel set, aligned.
bool is_initial_stack_pointer(uintptr_t sp) {
  uintptr_t first =
      &__libc_stack_end != nullptr ? reinterpret_cast<uintptr_t>(__libc_stack_end) : 0;
  return sp <= first && first - sp < 2 * sizeof(uintptr_t);
}

// No call returns to a function's first instruction. If one is a return address, it was stored on
// the stack explicitly: as the return address of a signal handler, or (by makecontext) of a fibre's
// function. There is no frame above the latter. Returns false if pc is not the first instruction of
// a function.
SEEMALLOC_NOINLINE bool Walk::step_by_first_instruction(const Module& module, Step* taken) {
  Row row;
  if (!find_row(module, registers_.pc(), tables_trusted_, &row)) return false;
  *taken = row.signal_frame ? step_by_row(row) : Step::kEnd;
  return true;
}

// Code in a module, but without an unwind entry: a signal trampoline, the start of a fibre,
// assembly without annotations, the built-in functions of V8.
Walk::Step Walk::step_without_row(const Module* module) {
  notes_->abandon();
  Step taken;
  if (!exact_pc_ && step_by_first_instruction(*module, &taken)) return taken;
  if (is_signal_return(registers_.pc())) return step_by_signal_return();
  if (!exact_pc_ && is_initial_stack_pointer(registers_.sp())) return Step::kEnd;
  if (!exact_pc_) cache_rowless(*module);
  return step_by_guess();
}

// Caches that the code has no row. Finding that out takes dozens of system calls if the tables are
// not trusted, and one (1 µs) if they are.
void Walk::cache_rowless(const Module& module) {
  uintptr_t pc = registers_.pc() - 1;
  uint16_t tag;
  if (code_tag(pc, tables_trusted_, &tag))
    rule_cache.insert(pc ^ module.identity_hash, UnwindRule::rowless(tag).bits);
}

// Code made at run time, or a trampoline that is in no module. Only the first such frame of a stack
// is examined, and the result is cached under its bare pc. If the address becomes a trampoline
// later, stacks through it are wrong.
Walk::Step Walk::step_outside_modules() {
  notes_->abandon();
  uintptr_t pc = registers_.pc();
  if (!trusted_ || rule_cache.find(pc) == UnwindRule::rowless(0).bits) return step_by_guess();
  if (is_signal_return(pc)) return step_by_signal_return();
  rule_cache.insert(pc, UnwindRule::rowless(0).bits);
  return step_by_guess();
}

Walk::Step Walk::step_by_signal_return() {
  if (!leave_signal_frame(&registers_, memory_)) return step_by_guess();
  uintptr_t sp = registers_.sp();
  if (!memory_.follow_signal(sp)) return Step::kBroken;
  exact_pc_ = true;
  return set_caller(registers_.pc(), sp);
}

// The guess for code without tables: that it has a frame pointer or, if it was interrupted, that it
// has not set up one yet.
Walk::Step Walk::step_by_guess() {
  notes_->abandon();
  trusted_ = false;
  memory_.distrust();
  uintptr_t return_slot = exact_pc_ ? return_slot_on_top() : 0;
  return return_slot != 0 ? step_by_stack_top(return_slot) : step_by_frame_pointer();
}

bool Walk::is_return_address_at(uintptr_t address) {
  uintptr_t word;
  return memory_.read(address, &word) && follows_call(word);
}

// Returns the slot that holds the return address of interrupted code, if there is no return address
// beside the frame pointer: beside a frame pointer that has just been pushed, or on top of the
// stack (a leaf, or the first instruction). The pushed frame pointer is checked first, because its
// value may look like a return address, too. Returns 0 if there is no such slot.
uintptr_t Walk::return_slot_on_top() {
#if defined(__x86_64__)
  uintptr_t sp = registers_.sp(), fp = registers_.fp(), top;
  if (sp % sizeof(uintptr_t) != 0) return 0;
  if (fp >= sp && is_return_address_at(fp + sizeof(uintptr_t))) return 0;
  if (memory_.read(sp, &top) && top == fp && is_return_address_at(sp + sizeof(uintptr_t)))
    return sp + sizeof(uintptr_t);
  return is_return_address_at(sp) ? sp : 0;
#else
  return 0;
#endif
}

Walk::Step Walk::step_by_stack_top(uintptr_t return_slot) {
  uintptr_t cfa = return_slot + sizeof(uintptr_t), return_address;
  if (!memory_.follow(registers_.sp() - 1, cfa) || !memory_.read(return_slot, &return_address))
    return Step::kBroken;
  registers_.known &= kCalleeSaved;  // not changed so far
  on_frame_pointers_ = false;
  exact_pc_ = false;
  return set_caller(return_address, cfa);
}

// A frame record is the caller's frame pointer and the return address. The ABI marks the first
// frame by a null frame pointer. Null is accepted only at the end of a chain of records: on x86-64
// the frame pointer may also be a register that the code does not use.
Walk::Step Walk::step_by_frame_pointer() {
#if defined(__x86_64__)
  bool in_chain = on_frame_pointers_;
#else
  bool in_chain = true;
#endif
  on_frame_pointers_ = true;
  if (!registers_.has(kFp)) return Step::kBroken;
  uintptr_t record = registers_.fp();
  if (record == 0) return in_chain ? Step::kEnd : Step::kBroken;
  uintptr_t cfa = record + 2 * sizeof(uintptr_t);
  if (record % sizeof(uintptr_t) != 0 || record < registers_.sp()) return Step::kBroken;
  uintptr_t caller_record, return_address;
  if (!memory_.follow(registers_.sp(), cfa) || !memory_.read(record, &caller_record) ||
      !memory_.read(record + sizeof(uintptr_t), &return_address)) {
    return Step::kBroken;
  }
  if (return_address == 0 && !in_chain) return Step::kBroken;
  registers_.known = 0;
  registers_.set(kFp, caller_record);
  exact_pc_ = false;
  return set_caller(return_address, cfa);
}

// Replaces PythonWalk if only C frames are recorded.
struct NoPython {
  static bool is_interpreter_frame(uintptr_t, uintptr_t) { return false; }
  static void replace_last(Stack*, size_t) {}
  static void append_rest(Stack*, size_t) {}
  static bool make_room(Stack*, size_t) { return false; }
  static void drop_last(Stack*) {}
};

// Fills `out` with the frames above the one where `walk` starts.
template <typename Python>
SEEMALLOC_ALWAYS_INLINE void fill(Walk& walk, Start start, size_t max_depth, Stack* out,
                                  Python& python) {
  uintptr_t own_start = 0, own_end = 0;
  bool skipping = start == Start::kHere && own_library_bounds(&own_start, &own_end);
  if (start == Start::kInterrupted) {
    out->pcs[out->depth++] = walk.return_address();
    out->broken = !walk.starts_on_a_stack();
    if (out->broken) return;
  }
  for (;;) {
    uintptr_t frame_low = walk.sp();
    Walk::Step step = walk.step();
    if (step == Walk::Step::kEnd) return;
    if (step == Walk::Step::kBroken) {
      out->broken = true;
      python.append_rest(out, max_depth);
      return;
    }
    if (python.is_interpreter_frame(frame_low, walk.sp()) && out->depth != 0) {
      python.replace_last(out, max_depth);
      if (out->truncated) return;
    }
    skipping = skipping && walk.pc() - own_start < own_end - own_start;
    if (skipping) continue;
    python.drop_last(out);
    if (out->depth == max_depth && !python.make_room(out, max_depth)) {
      out->truncated = true;
      return;
    }
    out->pcs[out->depth++] = walk.return_address();
  }
}

// Stacks whose C frames are equal may differ in their Python functions, so such a stack cannot be
// found in the stack cache.
SEEMALLOC_NOINLINE bool fill_with_python(const Registers& registers, Start start, size_t max_depth,
                                         Stack* out, WalkDependencies* notes, const Python& found) {
  os::Scratch<Walk> walk(registers, notes);
  if (!walk) return false;
  const StackMemory& stack = walk->memory();
  os::Scratch<PythonWalk> python(found, stack.own_low(), stack.own_high());
  if (!python || !python->has_interpreter()) return false;
  notes->abandon();
  fill(*walk, start, max_depth, out, *python);
  return true;
}

SEEMALLOC_NOINLINE void fill_without_python(const Registers& registers, Start start,
                                            size_t max_depth, Stack* out, WalkDependencies* notes) {
  NoPython none;
  Walk walk(registers, notes);
  fill(walk, start, max_depth, out, none);
}

SEEMALLOC_NOINLINE void walk_from(const Registers& registers, Start start, size_t max_depth,
                                  Stack* out, WalkDependencies* notes, const Python* python) {
  DCHECK(max_depth <= kMaxStackDepth);
  out->depth = 0;
  out->truncated = false;
  out->broken = false;
  if (SEEMALLOC_LIKELY(python == nullptr) ||
      !fill_with_python(registers, start, max_depth, out, notes, *python)) {
    fill_without_python(registers, start, max_depth, out, notes);
  }
  if (out->broken) notes->abandon();
}

}  // namespace

void walk_stack(const Registers& registers, size_t max_depth, Stack* out, WalkDependencies* notes) {
  walk_from(registers, Start::kHere, max_depth, out, notes, active_python());
}

void capture_stack_from(const void* ucontext, Stack* out, size_t max_depth) {
  DCHECK(max_depth >= 1);
  WalkDependencies none(nullptr);
  walk_from(interrupted_registers(ucontext), Start::kInterrupted, max_depth, out, &none,
            active_python());
}

void capture_native_stack_from(const void* ucontext, Stack* out, size_t max_depth) {
  WalkDependencies none(nullptr);
  walk_from(interrupted_registers(ucontext), Start::kInterrupted, max_depth, out, &none, nullptr);
}

SEEMALLOC_NOINLINE void capture_stack(Stack* out, size_t max_depth) {
  Registers registers;
  take_registers(&registers);
  WalkDependencies none(nullptr);
  walk_stack(registers, max_depth, out, &none);
}

SEEMALLOC_NOINLINE void capture_native_stack(Stack* out, size_t max_depth) {
  Registers registers;
  take_registers(&registers);
  WalkDependencies none(nullptr);
  walk_from(registers, Start::kHere, max_depth, out, &none, nullptr);
}

}  // namespace seemalloc::profile
