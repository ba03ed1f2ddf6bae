// The growth profile: the stacks at which memory was taken from the OS, with counts and bytes.
//
// Everything is recorded, nothing is sampled: a heap grows by at least 2 MiB at a time. Memory that
// is returned later is not subtracted. The size of the records is bounded: growth at more than
// kMaxGrowthStacks stacks, and growth for which no record could be allocated, is summed up without
// a stack. So is the first growth of the process: at that time the means for walking a stack may be
// missing.
// Threads: any, holding none of the heap's locks. Never calls malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/pprof/buffer.h"
#include "core/profile/pprof/comment_writer.h"

namespace seemalloc::profile {

inline constexpr size_t kMaxGrowthStacks = 1024;

// Records that the heap grew `count` times at the caller's stack, of which at most `max_depth`
// frames are kept.
void record_growth(size_t bytes, uint64_t count, size_t max_depth);

struct GrowthTotals {
  uint64_t count, bytes;
  uint64_t count_without_stack, bytes_without_stack;  // of them, those without a stack
  uint64_t unrecorded_count;                          // of these, those without memory for a record
  uint64_t truncated_times, broken_times;             // with an incomplete stack
  size_t stacks;
};
GrowthTotals growth_totals();

struct GrowthRow {
  const uintptr_t* return_addresses;  // innermost first
  unsigned depth;                     // 0: without a stack
  uint64_t count, bytes;
};
void for_each_growth(void (*f)(void* context, const GrowthRow& row), void* context);

// Writes the comments of the profile.
void write_growth_comments(const CommentWriter& notes);
// Value types: growth_objects, growth_space. Returns false if memory was refused.
bool growth_profile_to_buffer(Buffer* out);

void lock_growth_for_fork();
void unlock_growth_after_fork();

}  // namespace seemalloc::profile
