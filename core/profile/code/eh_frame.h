// .eh_frame: finds the row of the unwind table for a pc, which tells how to leave its frame.
//
// The header's sorted table, or an index of our own (frame_index.h), is searched for the function's entry (FDE). The
// entry and its common part (CIE) are parsed, and their program is run up to the pc. Called by the unwinder on a miss
// in the rule cache (~0.3 µs).
// Threads: any; no lock, no allocation, no call into the dynamic linker.
#pragma once

#include <cstdint>

#include "core/profile/code/modules.h"
#include "core/profile/code/registers.h"

namespace seemalloc::profile {

// How to find the caller's value of a register.
enum class How : uint8_t {
  kSame,             // the function has not changed it
  kUndefined,        // lost; for the return address: this is the thread's first frame
  kAtOffset,         // stored at CFA + value
  kIsOffset,         // is CFA + value
  kInRegister,       // is in the register `value`
  kAtExpression,     // stored at the address that the expression computes
  kIsExpression,     // is the value that the expression computes
};

// One row of the unwind table. The CFA is the value of the stack pointer in the caller, before the call.
struct Row {
  int64_t value[kRegisterCount];  // offset, register, or address of an expression block (length, then operations)
  How how[kRegisterCount];
  bool cfa_is_expression;
  bool signal_frame;  // the frame below was interrupted, not called: its pc is exact
  uint8_t cfa_register;
  uint8_t return_register;
  int64_t cfa_value;  // offset from the register, or address of an expression block
};

// An entry (FDE): the range of its code, and of its program.
struct Description {
  uintptr_t start = 0, bytes = 0;
  uintptr_t program_start = 0, program_end = 0;
};
// Returns false if there is no entry in a supported form. Requires: `module` contains it. `trusted`: as in DwarfCursor.
bool read_description(const Module& module, uintptr_t address, bool trusted, Description* out);

// Fills in the row that applies at `pc`. Returns false if there is no entry, or only one in an unsupported form.
// Requires: `pc` is in `module`. `trusted`: as in DwarfCursor.
bool find_row(const Module& module, uintptr_t pc, bool trusted, Row* row);

}  // namespace seemalloc::profile
