// .eh_frame: from a pc to the row that tells how its frame is left.
//
// The header's sorted table, or one of our own (frame_index.h), is searched for the function's entry (FDE), the entry and its common part (CIE) are parsed,
// and their little program is run up to the pc. Called by the unwinder when the rule cache has no answer (~0.3 µs).
// Threads: any; no lock, no allocation, no call into the dynamic linker.
#pragma once

#include <cstdint>

#include "core/profile/modules.h"
#include "core/profile/registers.h"

namespace seemalloc::profile {

// How the caller's value of a register is found.
enum class How : uint8_t {
  kSame,             // the function has not changed it
  kUndefined,        // lost; for the return address: this is the thread's first frame
  kAtOffset,         // stored at CFA + value
  kIsOffset,         // is CFA + value
  kInRegister,       // is in the register `value`
  kAtExpression,     // stored where the expression says
  kIsExpression,     // is what the expression says
};

// One line of the unwind table. The CFA is the value of the stack pointer in the caller, before the call.
struct Row {
  int64_t value[kRegisterCount];  // offset, register, or address of an expression block (length, then operations)
  How how[kRegisterCount];
  bool cfa_is_expression;
  bool signal_frame;  // the frame below was interrupted, not called: its pc is exact
  uint8_t cfa_register;
  uint8_t return_register;
  int64_t cfa_value;  // offset from the register, or address of an expression block
};

// An entry (FDE): which code it is of, and where its program lies.
struct Description {
  uintptr_t start = 0, bytes = 0;
  uintptr_t program_start = 0, program_end = 0;
};
// False when there is no entry of a form that we read. Requires: `module` holds it. `trusted` as in DwarfCursor.
bool read_description(const Module& module, uintptr_t address, bool trusted, Description* out);

// Fills in the row that holds at `pc`. False when there is none: no entry, or one in a form we do not read.
// Requires: `pc` lies in `module`. `trusted` as in DwarfCursor.
bool find_row(const Module& module, uintptr_t pc, bool trusted, Row* row);

}  // namespace seemalloc::profile
