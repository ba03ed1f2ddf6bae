// Who made the heap grow: the stacks at which memory was taken from the system, how often and how much.
//
// Everything is recorded, nothing sampled: a heap grows by 2 MiB and more at a time. What is given back later is not subtracted.
// Memory is bounded: growth at further stacks than kMostGrowthStacks, and what no record could be had for, is summed up without a
// stack. So is the very first growth, which every process has: at that time there may be nothing to walk with.
// Threads: any, holding none of the heap's locks. Never calls malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/buffer.h"
#include "core/profile/notes.h"

namespace seemalloc::profile {

inline constexpr size_t kMostGrowthStacks = 1024;

// The caller's stack, at most `max_depth` frames of it, has made the heap grow, so many times at once.
void record_growth(size_t bytes, uint64_t times, size_t max_depth);

struct GrowthTotals {
  uint64_t times, bytes;
  uint64_t stackless_times, stackless_bytes;  // of them, those without a stack
  uint64_t refused_times;                     // of these, those for whose record there was no memory
  uint64_t truncated_times, broken_times;     // with a stack that is not whole
  size_t stacks;
};
GrowthTotals growth_totals();

struct GrowthRow {
  const uintptr_t* return_addresses;  // innermost first
  unsigned depth;                     // 0: without a stack
  uint64_t times, bytes;
};
void for_each_growth(void (*f)(void* context, const GrowthRow& row), void* context);

// What the profile says about itself.
void growth_profile_notes(const Notes& notes);
// growth_objects, growth_space. False when memory was refused.
bool growth_profile_to_buffer(Buffer* out);

void lock_growth_for_fork();
void unlock_growth_after_fork();

}  // namespace seemalloc::profile
