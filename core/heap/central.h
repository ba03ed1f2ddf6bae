// Central list: per size class, the spans that no thread owns and that have free blocks.
//
// Spans come from ending threads and from collection, and go to whichever thread needs one next. Full unowned spans are
// on no list; the free that empties a block of one brings it back.
// Threads: any; one lock per class. Invariant: span->remote == kUnowned exactly while the span is in the central
// list's care, and only changes from and to that under the class's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// Takes over a span from its owner. Requires: the owner's slow_lock, the span off its lists, no malloc list into it, and
// remote empty; false when a remote free came in between (the span stays the owner's).
bool central_put(Span* span);

// A span with free blocks, owned by `owner` from now on; null when there is none.
Span* central_take(unsigned size_class, const void* owner);

// Gives this unowned span to `owner`, full or not. False when it has found an owner meanwhile.
bool central_claim(Span* span, const void* owner);

// `count` blocks of an unowned span come back. False when the span has found an owner meanwhile: try again.
bool central_free(Span* span, Block* first, Block* last, uint32_t count);

// One block without a thread heap, for threads that are past their destructors; null when out of memory.
Block* central_allocate(unsigned size_class);

void lock_central_for_fork();
void unlock_central_after_fork();

}  // namespace seemalloc::heap
