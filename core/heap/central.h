// Central list: per size class, the spans that no thread owns and that have free blocks.
//
// Spans come from ending threads and from collection, and go to whichever thread needs one next. Full unowned spans are
// on no list; the free that empties a block of one brings it back.
// Lending spans are the exception: they serve the first few blocks of each thread that uses the class, and stay here
// until they are empty, or until a thread that needs more takes one that hardly lends. So a thread that needs one block of
// each size does not get a span of each.
// Threads: any; one lock per class. Invariant: span->remote == kUnowned exactly while the span is in the central
// list's care, and only changes from and to that under the class's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/lock.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// Takes over a span from its owner. Requires: the owner's slow_lock, the span off its lists, no malloc list into it, and
// remote empty; false when a remote free came in between (the span stays the owner's).
bool central_put(Span* span);

// A span with free blocks, owned by `owner` from now on; null when there is none. The last resort is a lending span of which
// at most half is lent.
Span* central_take(unsigned size_class, const void* owner);

// Gives this unowned span to `owner`, full or not. False when it has found an owner meanwhile.
bool central_claim(Span* span, const void* owner);

// `count` blocks of an unowned span come back. False when the span has found an owner meanwhile: try again.
bool central_free(Span* span, Block* first, Block* last, uint32_t count);

// Up to `count` linked, null-terminated blocks of one lending span, counted as live; 0 when out of memory. They come back
// through central_free.
uint32_t central_lend(unsigned size_class, uint32_t count, Block** first);

// `count` ≤ kMaxForeignBlocks blocks of any spans, all of them counted as live there, for whichever thread would otherwise
// need a new span: threads that free much of what a sleeping thread owns can use it themselves. False when there is no
// room: publish them (remote.h).
bool central_give_blocks(unsigned size_class, Block* const* blocks, uint32_t count);
// Takes one such batch; 0 when there is none.
uint32_t central_take_blocks(unsigned size_class, Block** blocks);
// Blocks in such batches.
size_t central_listed_blocks(unsigned size_class);
// Publishes the batches that were not needed since the last call, or all of them.
void central_publish_lists(bool all);

// For holes.cc. Takes a span off its list that has been there for so long and may have holes; null when there is none, and with
// *more when it has looked for long enough. Frees go on as before, but nobody gets it.
Span* central_detach(unsigned size_class, uint32_t least_periods, bool* more);
// Whose holder nobody else changes a detached span's counts.
Lock& central_lock(unsigned size_class);
// The span is back; it goes to the page heap when all of it has been freed meanwhile.
void central_reattach(Span* span);

// Gives empty lending spans back that have not been needed since the last call.
void central_trim();

void lock_central_for_fork();
void unlock_central_after_fork();

}  // namespace seemalloc::heap
