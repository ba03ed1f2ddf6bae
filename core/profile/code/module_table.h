// Our own list of loaded modules, for C libraries without _dl_find_object: old glibc, musl, static
// programs.
//
// It is filled from /proc/self/maps and the ELF headers in memory by raw system calls, when a pc is
// found in no module (at most every 200 ms, because generated code is never in one). Threads: any,
// including signal handlers.
// Invariants: 1. no thread waits: a reader that finds the table being written returns "not found".
// 2. entries are sorted by start. 3. each result was verified against the ELF header in memory, so
// an unloaded module is never returned.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/profile/code/module.h"

namespace seemalloc::profile {

bool find_in_module_table(uintptr_t pc, Module* module);
// Reads the ELF header in memory at `start`. Returns false if there is none.
bool read_module(uintptr_t start, Module* module);

// In a forked child: another thread of the parent may have been writing the table.
void reset_module_table();

inline uint64_t mix_identity(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15;
  uint64_t mixed = a;
  for (uint64_t word : {b, c, d}) {
    mixed = (mixed ^ word) * kHashMultiplier;
    mixed ^= mixed >> 29;
  }
  return mixed;
}

}  // namespace seemalloc::profile
