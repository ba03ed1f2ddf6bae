// Homes: for a sampled block, the ordinary span that it would have come from, and would now keep half empty.
//
// Sampled blocks live in spans of their own (sampled.h), so the spans they stand for do not know them. Who pins half-empty spans can
// be told from samples only if each remembers its home:
// 1. It is entered where the malloc list was cut: the span of the block behind it in the list.
// 2. A home's span goes back when its ordinary blocks are free, though the sampled one would have kept it. Then the home waits,
//    without a span: its block would be the only one.
// 3. The next new span of the class would not have been needed had that one stayed: it takes the place of the span that has
//    waited longest.
// So, to within the one block that is missing from it, a home's span is what it would be if its block had not been sampled.
// Why so, and how right it is: docs/decisions/0024.
//
// Who calls: refill, sampled.cc, whoever makes a span or gives one back. Threads: any; one lock, taken behind a heap's slow_lock,
// the central lists' and the sampled classes', before the arena's. Cost: about a sample's; spans that are nobody's home pay one load
// when they come and go. Memory: 40 bytes per home, used again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/heap/size_class.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// A home's number; 0: none, nothing is known.
using HomeId = uint32_t;

// One more sampled block has this home. 0 when memory is refused. Requires: a block of the span is live, and stays so meanwhile.
HomeId enter_home(Span* span);
// It is gone.
void leave_home(HomeId home);

extern std::atomic<HomeId> first_waiting_home[kClassCount];
SEEMALLOC_COLD void home_loses_span(Span* span);
SEEMALLOC_COLD void home_gets_span(Span* span);

// A span of ordinary blocks is given back. Requires: nobody else can reach it.
inline void span_goes(Span* span) {
  if (SEEMALLOC_UNLIKELY(span->home() != 0)) home_loses_span(span);
}
// A new one has come.
inline void span_comes(Span* span) {
  if (SEEMALLOC_UNLIKELY(first_waiting_home[span->size_class].load(std::memory_order_relaxed) != 0)) home_gets_span(span);
}

// Bytes of free blocks with memory behind them in the home's span, for each live block of it, had the sampled block stayed there.
double home_share_bytes(HomeId home);

// For tests and reports.
struct HomeTotals {
  size_t homes;    // with sampled blocks
  size_t waiting;  // of them, those without a span
};
HomeTotals home_totals();

void lock_homes_for_fork();
void unlock_homes_after_fork();

}  // namespace seemalloc::heap
