// The state of huge blocks, for the files that implement huge.h: huge.cc allocates, frees and
// reports, huge_caching.cc caches and purges freed memory, huge_moving.cc moves pages,
// huge_resizing.cc resizes.
//
// Everything in it is protected by `lock`, except atomic variables.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/policy/unmap_misses.h"
#include "core/pages/span/growth.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/span.h"

namespace seemalloc::pages::huge {

// The rest of a run behind a block is kept for other requests if it has at least this many bytes; a
// smaller rest stays with the block.
inline constexpr size_t kMinSplitRestBytes = 256 * KiB;

extern Lock lock;
extern HugeCache cache;
// Freed memory that was unmapped immediately: in eager mode, or because it exceeded the cache's
// limit.
extern UnmapMisses unmapped_immediately;
// Unmapped on request, under memory pressure, or because the cache was full: only counted.
extern UnmapMisses unmapped_early;
extern SpanList in_use;
extern size_t used_bytes;
extern size_t memory_bytes;               // of the blocks in use, with their reserves
extern size_t peak_bytes;                 // highest used_bytes in this window (purge.h)
extern size_t max_used_bytes, max_spans;  // highest values since the process started
// Blocks that realloc moves at this moment. Another block may take the old addresses before the
// lock is taken for the new ones (verify_huge).
extern std::atomic<uint32_t> moving_blocks;

inline size_t account_bytes() { return memory_bytes + cache.dirty_bytes(); }

// Holds the lock while the counters change, and reports the new total to the backing. Memory that
// leaves the counters must be covered by a Hold first.
class AccountingGuard {
 public:
  AccountingGuard() { lock.lock(); }
  ~AccountingGuard() {
    memory_account.set_huge_bytes(account_bytes());
    lock.unlock();
  }
  AccountingGuard(const AccountingGuard&) = delete;
  AccountingGuard& operator=(const AccountingGuard&) = delete;
};

inline void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

inline size_t rounded(size_t bytes) { return round_up(bytes, huge_granule()); }

// A block's memory is its bytes and the reserve behind them; the span stores the reserve in pages.
inline size_t reserve_of(const Span* span) { return size_t{span->capacity} << kPageShift; }
inline Range memory_of(const Span* span) {
  return Range{span->start, span->bytes + reserve_of(span)};
}

// Notes growth of the heap, if there is any.
inline void note_if_any(size_t bytes) {
  if (bytes != 0) note_growth(bytes);
}

// Sets the block's bytes and memory, and the counters.
void set_sizes_locked(Span* span, const Range& memory, size_t bytes);
void set_sizes(Span* span, const Range& memory, size_t bytes);

// ---- huge_caching.cc ----

// Caches memory for the next request. If there is no free record, the range that was freed first is
// unmapped.
void put_in_cache(const Extent& extent);
// Caches freed memory, or unmaps it if the cache should not have so much.
void cache_or_discard(const Range& range, bool known_dense);
// Whether memory that left the cache before its delay would have served this request.
bool was_unmapped_too_soon(size_t bytes);

}  // namespace seemalloc::pages::huge
