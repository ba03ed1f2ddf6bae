// Huge runs: blocks of more than half a region, which are mapped outside of regions, and the cache
// of freed ones (huge_cache.h).
//
// Freed memory is cached for one purge delay. A page fault costs as much as moving 70 pages
// (docs/decisions/0010), so resident memory is reused wherever it is: the first part of a cached
// run, or else cached extents that are moved together at the new block's address. Threads: any; one
// lock, not held across system calls. Address space: huge_space.h.
// Invariants:
//  1. a block's memory is its bytes and a reserve behind them that it can grow into
//     (Span::capacity, in pages).
//  2. between two mapping boundaries (mapping_boundaries.h) our memory is one kernel mapping; it is
//     moved from boundary to boundary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/calls.h"
#include "core/pages/span/span.h"

namespace seemalloc::pages {

// Returns a published kHuge span of at least `bytes` with its start aligned to `alignment`. Null
// when the OS refuses memory.
Span* allocate_huge(size_t bytes, size_t alignment);
void release_huge(Span* span);

// Resizes in place or by moving page tables (mremap), never by copying all of it. Returns false
// when refused or when it would take too many moves; the span is then unchanged. May change
// span->start.
bool resize_huge(Span* span, size_t bytes);

// Unmaps at most `most` cached ranges that were freed before `cutoff_ns`. Returns the bytes
// unmapped.
size_t purge_huge(uint64_t cutoff_ns, os::Reason reason = os::Reason::kRequested,
                  unsigned most = UINT32_MAX);
// Unmaps cached ranges, oldest first, until this many bytes are unmapped. Returns the bytes
// unmapped.
size_t purge_huge_oldest(size_t bytes, os::Reason reason);

// Bytes of the blocks in use. Cost: one load, no lock.
size_t huge_used_bytes();

struct HugeTotals {
  size_t used_bytes;
  size_t peak_bytes;  // highest used_bytes since the last call with `new_window`
  size_t cached_bytes;
};
HugeTotals huge_totals(bool new_window);

bool has_cached_huge();

struct HugeStatistics {
  size_t spans;
  size_t used_bytes;
  size_t cached_bytes;
  size_t memory_bytes;               // of the spans in use, with their reserves
  size_t max_spans, max_used_bytes;  // highest values since the process started
};
HugeStatistics huge_statistics();
// A block's bytes, and the reserve behind them.
struct HugeMemory {
  uintptr_t start;
  size_t bytes, reserve_bytes;
};
// Calls f for the memory of each span in use, with no lock held: by then the memory may have been
// freed, unmapped or reused.
void for_each_huge_memory(void (*f)(void* context, const HugeMemory& memory), void* context);
void for_each_huge_span(void (*f)(void* context, Span* span), void* context);
// The same for the spans that exist at the start of the call, with the lock released now and then.
// Concurrent changes may make it visit a span twice or not at all.
void visit_huge_spans(void (*f)(void* context, Span* span), void* context);
struct Extent;
// Copies the cached extents, at most HugeCache::kMaxExtents. Returns their number.
unsigned copy_cached_extents(Extent* out);

void lock_huge_for_fork();
void unlock_huge_after_fork();
// In a forked child: reports the counters' values to the backing.
void report_huge_bytes_in_child();
// For verify.h: the broken invariant of huge blocks or of the cache, or null.
const char* verify_huge();

}  // namespace seemalloc::pages
