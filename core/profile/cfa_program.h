// The program in a CIE and its FDE: instructions that build the unwind table of a function, row by row.
//
// Run by find_row up to the row that holds a pc. Threads: one runner. About 1 KiB on x86-64, in scratch memory.
// Invariant: an instruction we do not know, or one out of place, ends the run with "no row": never a guess.
#pragma once

#include <cstdint>

#include "core/profile/dwarf_cursor.h"
#include "core/profile/eh_frame.h"

namespace seemalloc::profile {

// What the functions of a CIE have in common.
struct CommonEntry {
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
  CfaProgram(const CommonEntry& common, uintptr_t function_start, uintptr_t data_base)
      : common_(common), location_(function_start), data_base_(data_base) {}

  // Runs the CIE's instructions and then those at `cursor`. False when the program is malformed.
  bool run(DwarfCursor& cursor, uintptr_t pc, Row* row);

 private:
  // GCC and Clang nest once; two more for assembly.
  static constexpr unsigned kMaxRemembered = 3;

  enum class Next { kGo, kStop, kBad };

  Next run_all(DwarfCursor& cursor, uintptr_t pc);
  Next step(DwarfCursor& cursor, uintptr_t pc);
  Next advance(uint64_t units, uintptr_t pc);
  bool define_cfa(uint8_t operation, DwarfCursor& cursor);
  bool define_register(uint8_t operation, DwarfCursor& cursor);
  bool set(uint64_t number, How how, int64_t value);
  bool restore(uint64_t number);
  bool remember();
  bool restore_remembered();

  const CommonEntry& common_;
  uintptr_t location_;
  uintptr_t data_base_;
  bool in_function_ = false;  // past the CIE's part
  Row row_;
  Row initial_;
  Row remembered_[kMaxRemembered];
  unsigned remembered_count_ = 0;
};

}  // namespace seemalloc::profile
