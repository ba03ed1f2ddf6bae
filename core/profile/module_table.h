// Our own list of loaded modules, for C libraries without _dl_find_object: old glibc, musl, static programs.
//
// Filled from /proc/self/maps and the ELF headers in memory by raw system calls, when a pc is found in no module (at
// most every 200 ms: code made at run time is in none, ever). Threads: any, signal handlers included.
// Invariants: 1. nobody waits: who finds the table being written gets "not found". 2. entries are sorted by start.
// 3. an answer was checked against the ELF header that is there now, so a closed module is never believed.
#pragma once

#include <cstdint>

#include "core/profile/modules.h"

namespace seemalloc::profile {

bool find_in_module_table(uintptr_t pc, Module* module);
// What the ELF header in memory at `start` says. False when there is none.
bool read_module(uintptr_t start, Module* module);

// In the child of fork: another thread of the parent may have been writing the table.
void reset_module_table();

inline uint64_t mix_identity(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t mixed = a;
  for (uint64_t word : {b, c, d}) {
    mixed = (mixed ^ word) * kOdd;
    mixed ^= mixed >> 29;
  }
  return mixed;
}

}  // namespace seemalloc::profile
