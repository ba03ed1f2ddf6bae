// Row: one row of an unwind table, which tells how to leave a frame. Found by find_row()
// (eh_frame.h), made by CfaProgram.
#pragma once

#include <cstdint>

#include "core/profile/code/registers.h"

namespace seemalloc::profile {

// How to find the caller's value of a register.
enum class RegisterRule : uint8_t {
  kSame,          // the function has not changed it
  kUndefined,     // lost; for the return address: this is the thread's first frame
  kAtOffset,      // stored at CFA + value
  kIsOffset,      // is CFA + value
  kInRegister,    // is in the register `value`
  kAtExpression,  // stored at the address that the expression computes
  kIsExpression,  // is the value that the expression computes
};

// One row of the unwind table. The CFA is the value of the stack pointer in the caller, before the
// call.
struct Row {
  // Offset, register, or address of an expression block (length, then operations).
  int64_t value[kRegisterCount];
  RegisterRule rules[kRegisterCount];
  bool cfa_is_expression;
  bool signal_frame;  // the frame below was interrupted, not called: its pc is exact
  uint8_t cfa_register;
  uint8_t return_register;
  int64_t cfa_value;  // offset from the register, or address of an expression block
};

}  // namespace seemalloc::profile
