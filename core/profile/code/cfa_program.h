// CfaProgram: the program in a CIE and its FDE: instructions that build the unwind table of a
// function, row by row.
//
// find_row runs it up to the row that covers a pc. Threads: one per object. About 1 KiB on x86-64,
// in scratch memory. Invariant: an unknown instruction, or one in the wrong place, ends the run
// with "no row", never with a guess.
#pragma once

#include <cstdint>

#include "core/profile/code/dwarf_cursor.h"
#include "core/profile/code/row.h"

namespace seemalloc::profile {

// The properties that all functions of a CIE have in common.
struct Cie {
  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  uint8_t return_register = 0;
  uint8_t pointer_encoding = 0;
  bool signal_frame = false;
  bool has_augmentation_data = false;
  uintptr_t program_start = 0;
  uintptr_t program_end = 0;
};

class CfaProgram {
 public:
  CfaProgram(const Cie& common, uintptr_t function_start, uintptr_t data_base)
      : cie_(common), location_(function_start), data_base_(data_base) {}

  // Runs the CIE's instructions and then those at `cursor`. Returns false if the program is
  // malformed.
  bool run(DwarfCursor& cursor, uintptr_t pc, Row* row);

 private:
  // GCC and Clang nest once; two more levels for assembly.
  static constexpr unsigned kMaxSavedStates = 3;

  enum class Next { kGo, kStop, kBad };

  Next run_all(DwarfCursor& cursor, uintptr_t pc);
  Next step(DwarfCursor& cursor, uintptr_t pc);
  Next advance(uint64_t units, uintptr_t pc);
  bool define_cfa(uint8_t operation, DwarfCursor& cursor);
  bool define_register(uint8_t operation, DwarfCursor& cursor);
  bool set(uint64_t number, RegisterRule rules, int64_t value);
  bool restore(uint64_t number);
  bool save_state();
  bool restore_state();

  const Cie& cie_;
  uintptr_t location_;
  uintptr_t data_base_;
  bool in_function_ = false;  // past the CIE's part
  Row row_;
  Row initial_;
  Row saved_states_[kMaxSavedStates];
  unsigned saved_state_count_ = 0;
};

}  // namespace seemalloc::profile
