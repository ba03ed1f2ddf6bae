// Homes: the home of a sampled block is the ordinary span that the block would have come from, and
// would now keep half empty.
//
// Sampled blocks live in spans of their own (sampled.h), so the spans that they stand for do not
// know them. Samples can only tell which stacks pin half-empty spans if each sample remembers its
// home:
// 1. A home is entered where the thread free list was cut: it is the span of the next block in the
//    list.
// 2. A home's span is released when its ordinary blocks are free, though the sampled block would
//    have kept it. Then the home waits without a span, in which its block would be the only one.
// 3. Had that span stayed, the next new span of the class would not have been needed. So the new
//    span replaces the span of the home that has waited longest.
// So, apart from the one missing block, a home's span is in the state in which it would be if its
// block had not been sampled.
// Reasons and accuracy: docs/decisions/0024.
//
// Callers: refill, sampled.cc, code that makes or releases spans. Threads: any; one lock, taken
// after a heap's slow_lock, the central lists' and the sampled classes' locks, and before the
// arena's. Cost: about that of a sample; a span that is not a home pays one load when it is made
// and when it is released. Memory: 40 bytes per home, reused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/heap/thread/size_class.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// A home's number; 0: no home, nothing is known.
using HomeId = uint32_t;

// Adds a sampled block to the span's home. Returns 0 if memory is refused. Requires: a block of the
// span is live, and stays so during the call.
HomeId enter_home(Span* span);
// Removes a sampled block from the home.
void leave_home(HomeId home);

extern std::atomic<HomeId> first_waiting_home[kClassCount];
SEEMALLOC_COLD void detach_home_from_span(Span* span);
SEEMALLOC_COLD void attach_waiting_home(Span* span);

// A span of ordinary blocks is being released. Requires: no other thread can reach it.
inline void on_span_released(Span* span) {
  if (SEEMALLOC_UNLIKELY(span->home() != 0)) detach_home_from_span(span);
}
// A new span of ordinary blocks has been made.
inline void on_span_created(Span* span) {
  if (SEEMALLOC_UNLIKELY(first_waiting_home[span->size_class].load(std::memory_order_relaxed) != 0))
    attach_waiting_home(span);
}

// Free bytes with memory behind them in the home's span, per live block of it, as if the sampled
// block had stayed there.
double home_charge_bytes(HomeId home);

// For tests and reports.
struct HomeTotals {
  size_t homes;    // homes with sampled blocks
  size_t waiting;  // homes of these without a span
};
HomeTotals home_totals();

void lock_homes_for_fork();
void unlock_homes_after_fork();
// For verify.h: the broken invariant, or null.
const char* verify_homes();

}  // namespace seemalloc::heap
