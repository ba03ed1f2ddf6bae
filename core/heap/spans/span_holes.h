// Span holes: what the lists on which spans wait, and the owners of spans, need to know of holes
// (holes.h).
// Threads: under the lock of the span's list, or its owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/os/kernel/memory.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// The clock for spans that wait. It counts half purge delays, or longer periods when purged pages
// are reused soon.
extern std::atomic<uint32_t> hole_epoch;

// The span that is detached; else null. There is at most one, since one thread at a time purges.
extern std::atomic<Span*> detached_span;
inline void note_detached(Span* span) {
  DCHECK(span->state == pages::SpanState::kAvailable || span->state == pages::SpanState::kCurrent);
  DCHECK(span->prev == nullptr && span->next == nullptr);
  span->state = pages::SpanState::kDetached;
  detached_span.store(span, std::memory_order_relaxed);
}
inline void forget_detached() { detached_span.store(nullptr, std::memory_order_relaxed); }

// The most spans that are checked while the lock is held.
inline constexpr unsigned kMaxSpansPerScan = 128;
// True if the span has been on its list for at least this many periods.
inline bool has_waited(const Span* span, uint32_t periods) {
  return hole_epoch.load(std::memory_order_relaxed) - span->hole_scan.since >= periods;
}
// Number of blocks on its list. A block that the owner is freeing may not be counted yet.
template <typename S>
uint32_t listed_blocks(const S* span) {
  return span->carved - span->live_acquire();
}
inline bool worth_rescan(const Span* span) {
  return listed_blocks(span) >= span->hole_scan.min_free_blocks;
}
// True if the span has enough free bytes, and more free blocks than at its last scan.
bool may_have_holes(const Span* span);
// Records that the span has been scanned.
void note_scanned(Span* span);

// ---- pages and blocks of a span ----

struct BlockRange {
  uint32_t first, end;
};
inline unsigned lowest_page(uint32_t pages) { return static_cast<unsigned>(__builtin_ctz(pages)); }
// The size and the addresses of these pages.
inline unsigned page_shift() { return static_cast<unsigned>(__builtin_ctzll(os::page_bytes())); }
template <typename S>
uintptr_t address_of_page(const S* span, unsigned page) {
  return ((span->start >> page_shift()) + page) << page_shift();
}
// The indexes of the carved blocks whose first byte is in the OS page. Pages are numbered as in
// Span::holes.
template <typename S>
BlockRange blocks_starting_in(const S* span, unsigned page) {
  uintptr_t page_start = address_of_page(span, page), page_end = page_start + os::page_bytes();
  auto blocks_before = [span](uintptr_t address) {
    if (address <= span->start) return uint32_t{0};
    uint64_t blocks = (address - span->start + span->block_bytes - 1) / span->block_bytes;
    return blocks < span->carved ? static_cast<uint32_t>(blocks) : span->carved;
  };
  return {blocks_before(page_start), blocks_before(page_end)};
}

// Makes the blocks of one hole a null-terminated list. They no longer count as blocks in a hole,
// but still count as live. Returns their number. Requires: the span has holes; the caller is its
// owner.
uint32_t refill_hole(Span* span, Block** first);
// Bytes of the holes that refill_hole() has made blocks of.
uint64_t refilled_hole_bytes();

}  // namespace seemalloc::heap
