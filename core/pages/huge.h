// Huge runs: more than half a region, outside of regions, and what is kept of freed ones (huge_cache.h).
//
// Freed memory is kept for one purge delay. A fault costs as much as moving 70 pages (docs/decisions/0010), so memory that is
// resident is used again wherever it lies: the first part of a run of it; else pieces of it are moved to where a block
// is to be. Threads: any; one lock, not held across system calls. Their addresses: huge_space.h.
// Invariants:
//  1. a block's memory is its bytes and a reserve behind them (Span::capacity, in pages), for it to grow into.
//  2. between two seams (seams.h) our memory is one mapping of the kernel's; it is moved from seam to seam.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/calls.h"
#include "core/pages/span.h"

namespace seemalloc::pages {

// A published kHuge span of at least `bytes`, start aligned to `alignment`. Null when the OS refuses.
Span* allocate_huge(size_t bytes, size_t alignment);
void release_huge(Span* span);

// Resizes in place or by moving page tables (mremap), never by copying. False when refused or when it would take too many moves:
// the span is unchanged. May change span->start.
bool resize_huge(Span* span, size_t bytes);

// Unmaps cached mappings freed before `cutoff_ns`, at most so many. Returns bytes given back.
size_t purge_huge(uint64_t cutoff_ns, os::Reason reason = os::Reason::kAsked, unsigned most = UINT32_MAX);
// Unmaps cached mappings until it has been so many bytes, those freed first to begin with.
size_t purge_huge_oldest(size_t bytes, os::Reason reason);

// Bytes of the blocks in use: one load, no lock.
size_t huge_used_bytes();

struct HugeTotals {
  size_t used_bytes;
  size_t peak_bytes;  // the most that was in use since the last call with `new_window`
  size_t cached_bytes;
};
HugeTotals huge_totals(bool new_window);

bool anything_cached_huge();

struct HugeStatistics {
  size_t spans;
  size_t used_bytes;
  size_t cached_bytes;
  size_t memory_bytes;  // of the spans in use, with the room behind them
  size_t most_spans, most_bytes;  // in use at once, since the process began
};
HugeStatistics huge_statistics();
// A block's bytes, and the reserve behind them.
struct HugeMemory {
  uintptr_t start;
  size_t bytes, reserve_bytes;
};
// Calls f for the memory of each span in use, with no lock held: it may be another's, or nobody's, by then.
void for_each_huge_memory(void (*f)(void* context, const HugeMemory& memory), void* context);
void for_each_huge_span(void (*f)(void* context, Span* span), void* context);
// The same for those that were there at the beginning, with the lock let go now and then: while others come and go, one may be seen
// twice or not at all.
void visit_huge_spans(void (*f)(void* context, Span* span), void* context);
struct Extent;
// What is kept of freed ones: copies HugeCache::kExtents at most. Returns how many.
unsigned kept_huge(Extent* out);

void lock_huge_for_fork();
void unlock_huge_after_fork();
// In a forked child: has the backing know what the books say.
void restate_huge_in_child();

}  // namespace seemalloc::pages
