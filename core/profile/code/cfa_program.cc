#include "core/profile/code/cfa_program.h"

namespace seemalloc::profile {
namespace {

// Instructions (DW_CFA_*). The first three have an operand in their low six bits.
enum : uint8_t {
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xC0,
  kNothing = 0x00,
  kSetLocation = 0x01,
  kAdvance1 = 0x02,
  kAdvance2 = 0x03,
  kAdvance4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0A,
  kRestoreState = 0x0B,
  kDefineCfa = 0x0C,
  kDefineCfaRegister = 0x0D,
  kDefineCfaOffset = 0x0E,
  kDefineCfaExpression = 0x0F,
  kExpression = 0x10,
  kOffsetExtendedSigned = 0x11,
  kDefineCfaSigned = 0x12,
  kDefineCfaOffsetSigned = 0x13,
  kValueOffset = 0x14,
  kValueOffsetSigned = 0x15,
  kValueExpression = 0x16,
  // aarch64: the return address is signed from here on; the signature is always stripped.
  kNegateReturnState = 0x2D,
  kArgumentsBytes = 0x2E,
  kNegativeOffsetExtended = 0x2F,
};

// Returns an expression as the address of its block, and skips the block.
int64_t expression_block(DwarfCursor& cursor) {
  auto block = static_cast<int64_t>(cursor.address());
  cursor.skip(cursor.uleb());
  return block;
}

// Converts a factored offset to bytes. Invalid values wrap around.
int64_t scale(uint64_t factor, int64_t unit) {
  return static_cast<int64_t>(factor * static_cast<uint64_t>(unit));
}
int64_t scale(int64_t factor, int64_t unit) { return scale(static_cast<uint64_t>(factor), unit); }

}  // namespace

bool CfaProgram::set(uint64_t number, RegisterRule how, int64_t value) {
  // Untracked registers (vector registers, for example) play no part in unwinding.
  if (number >= kRegisterCount) return true;
  row_.rules[number] = how;
  row_.value[number] = value;
  return true;
}

bool CfaProgram::restore(uint64_t number) {
  if (!in_function_) return false;
  if (number >= kRegisterCount) return true;
  return set(number, initial_.rules[number], initial_.value[number]);
}

bool CfaProgram::save_state() {
  if (saved_state_count_ == kMaxSavedStates) return false;
  saved_states_[saved_state_count_++] = row_;
  return true;
}

bool CfaProgram::restore_state() {
  if (saved_state_count_ == 0) return false;
  row_ = saved_states_[--saved_state_count_];
  return true;
}

CfaProgram::Next CfaProgram::advance(uint64_t units, uintptr_t pc) {
  location_ += units * cie_.code_alignment;
  return location_ > pc ? Next::kStop : Next::kGo;
}

bool CfaProgram::define_cfa(uint8_t operation, DwarfCursor& cursor) {
  bool has_both = operation == kDefineCfa || operation == kDefineCfaSigned;
  // Changing one half requires the other half, which an expression does not have.
  if (!has_both && operation != kDefineCfaExpression && row_.cfa_is_expression) return false;
  if (has_both || operation == kDefineCfaRegister) {
    uint64_t number = cursor.uleb();
    if (number >= kRegisterCount) return false;
    row_.cfa_register = static_cast<uint8_t>(number);
    row_.cfa_is_expression = false;
  }
  switch (operation) {
    case kDefineCfa: row_.cfa_value = static_cast<int64_t>(cursor.uleb()); break;
    case kDefineCfaOffset: row_.cfa_value = static_cast<int64_t>(cursor.uleb()); break;
    case kDefineCfaSigned: row_.cfa_value = scale(cursor.sleb(), cie_.data_alignment); break;
    case kDefineCfaOffsetSigned: row_.cfa_value = scale(cursor.sleb(), cie_.data_alignment); break;
    case kDefineCfaExpression:
      row_.cfa_is_expression = true;
      row_.cfa_value = expression_block(cursor);
      break;
    default: break;
  }
  return true;
}

bool CfaProgram::define_register(uint8_t operation, DwarfCursor& cursor) {
  uint64_t number = cursor.uleb();
  int64_t unit = cie_.data_alignment;
  switch (operation) {
    case kOffsetExtended: return set(number, RegisterRule::kAtOffset, scale(cursor.uleb(), unit));
    case kOffsetExtendedSigned:
      return set(number, RegisterRule::kAtOffset, scale(cursor.sleb(), unit));
    case kNegativeOffsetExtended:
      return set(number, RegisterRule::kAtOffset, scale(0 - cursor.uleb(), unit));
    case kValueOffset: return set(number, RegisterRule::kIsOffset, scale(cursor.uleb(), unit));
    case kValueOffsetSigned:
      return set(number, RegisterRule::kIsOffset, scale(cursor.sleb(), unit));
    case kExpression: return set(number, RegisterRule::kAtExpression, expression_block(cursor));
    case kValueExpression:
      return set(number, RegisterRule::kIsExpression, expression_block(cursor));
    case kRegister:
      return set(number, RegisterRule::kInRegister, static_cast<int64_t>(cursor.uleb()));
    case kUndefined: return set(number, RegisterRule::kUndefined, 0);
    case kSameValue: return set(number, RegisterRule::kSame, 0);
    case kRestoreExtended: return restore(number);
    default: return false;
  }
}

CfaProgram::Next CfaProgram::step(DwarfCursor& cursor, uintptr_t pc) {
  uint8_t operation = cursor.u8();
  uint8_t operand = operation & 0x3F;
  auto step_result = [](bool good) { return good ? Next::kGo : Next::kBad; };
  switch (operation & 0xC0) {
    case kAdvance: return advance(operand, pc);
    case kOffset:
      return step_result(
          set(operand, RegisterRule::kAtOffset, scale(cursor.uleb(), cie_.data_alignment)));
    case kRestore: return step_result(restore(operand));
  }
  switch (operation) {
    case kNothing:
    case kNegateReturnState: return Next::kGo;
    case kArgumentsBytes: cursor.uleb(); return Next::kGo;
    case kAdvance1: return advance(cursor.fixed(1), pc);
    case kAdvance2: return advance(cursor.fixed(2), pc);
    case kAdvance4: return advance(cursor.fixed(4), pc);
    case kSetLocation:
      location_ = cursor.pointer(cie_.pointer_encoding, data_base_);
      return location_ > pc ? Next::kStop : Next::kGo;
    case kRememberState: return step_result(save_state());
    case kRestoreState: return step_result(restore_state());
    case kDefineCfa:
    case kDefineCfaRegister:
    case kDefineCfaOffset:
    case kDefineCfaExpression:
    case kDefineCfaSigned:
    case kDefineCfaOffsetSigned: return step_result(define_cfa(operation, cursor));
    default: return step_result(define_register(operation, cursor));
  }
}

CfaProgram::Next CfaProgram::run_all(DwarfCursor& cursor, uintptr_t pc) {
  Next next = Next::kGo;
  while (next == Next::kGo && !cursor.at_end()) {
    next = step(cursor, pc);
  }
  return cursor.ok() ? next : Next::kBad;
}

bool CfaProgram::run(DwarfCursor& cursor, uintptr_t pc, Row* row) {
  for (unsigned i = 0; i < kRegisterCount; i++) {
    row_.rules[i] = RegisterRule::kSame;
    row_.value[i] = 0;
  }
  row_.cfa_is_expression = false;
  row_.signal_frame = cie_.signal_frame;
  row_.cfa_register = kSp;
  row_.return_register = cie_.return_register;
  row_.cfa_value = 0;
  DwarfCursor common_cursor(cie_.program_start, cie_.program_end, cursor.trusted());
  if (run_all(common_cursor, pc) == Next::kBad) return false;
  initial_ = row_;
  in_function_ = true;
  if (run_all(cursor, pc) == Next::kBad) return false;
  *row = row_;
  return true;
}

}  // namespace seemalloc::profile
