// Huge runs: more than half a region, each with a mapping of its own, and a small cache of freed ones.
//
// The cache keeps freed mappings for one purge delay, so that a program that allocates and frees big buffers in a loop
// neither faults nor calls the kernel each time. A request takes the first part of a longer one, or has a shorter one grow
// by moving its page tables. Threads: any; one lock, not held across system calls but mincore.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::pages {

// A published kHuge span of at least `bytes`, start aligned to `alignment`. Null when the OS refuses.
Span* allocate_huge(size_t bytes, size_t alignment);
void release_huge(Span* span);

// Resizes in place or by moving page tables (mremap), never by copying. False when refused: the span is unchanged.
// May change span->start.
bool resize_huge(Span* span, size_t bytes);

// Unmaps cached mappings freed before `cutoff_ns`. Returns bytes given back.
size_t purge_huge(uint64_t cutoff_ns);

bool anything_cached_huge();

struct HugeStatistics {
  size_t spans;
  size_t used_bytes;
  size_t cached_bytes;
  size_t resident_bytes;  // of the spans in use
};
HugeStatistics huge_statistics(bool with_residency);
void for_each_huge_span(void (*f)(void* context, Span* span), void* context);

void lock_huge_for_fork();
void unlock_huge_after_fork();

}  // namespace seemalloc::pages
