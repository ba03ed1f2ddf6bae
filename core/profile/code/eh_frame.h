// .eh_frame: finds the row of the unwind table for a pc, which tells how to leave its frame.
//
// The header's sorted table, or an index of our own (frame_index.h), is searched for the function's
// entry (FDE). The entry and its common part (CIE) are parsed, and their program is run up to the
// pc. Called by the unwinder on a miss in the rule cache (~0.3 µs).
// Threads: any; no lock, no allocation, no call into the dynamic linker.
#pragma once

#include <cstdint>

#include "core/profile/code/module.h"
#include "core/profile/code/row.h"

namespace seemalloc::profile {

// An entry (FDE): the range of its code, and of its program.
struct Fde {
  uintptr_t start = 0, bytes = 0;
  uintptr_t program_start = 0, program_end = 0;
};
// Returns false if there is no entry in a supported form. Requires: `module` contains it.
// `trusted`: as in DwarfCursor.
bool read_description(const Module& module, uintptr_t address, bool trusted, Fde* out);

// Fills in the row that applies at `pc`. Returns false if there is no entry, or only one in an
// unsupported form. Requires: `pc` is in `module`. `trusted`: as in DwarfCursor.
bool find_row(const Module& module, uintptr_t pc, bool trusted, Row* row);

}  // namespace seemalloc::profile
