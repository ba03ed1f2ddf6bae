// Central list: per size class, the spans that no thread owns and that have free blocks.
//
// Spans come from ending threads and from collection, and go to the next thread that needs one.
// Full unowned spans are on no list; a free into one of them puts it back on its list.
// Shared spans (Span::blocks_are_shared) are the exception. They serve the first few blocks of each
// thread that uses the class. They stay here until they are empty, or until a thread that needs
// more takes one of which few blocks are live. So a thread that needs one block of each size does
// not get a span of each. Threads: any; one lock per class. Invariant: span->remote == kUnowned
// exactly while the span belongs to the central list, and it changes from and to that value only
// under the class's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/runtime/lock.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// Takes over a span from its owner. Returns false if a remote free came in between; then the span
// stays the owner's. Requires: the owner's slow_lock; the span is off its owner's lists; no thread
// free list has blocks of it; `remote` is 0.
bool central_put(Span* span);

// Returns a span with free blocks, now owned by `owner`; null if there is none. The last resort is
// a shared span of which at most half is live.
Span* central_take(unsigned size_class, const void* owner);

// Makes `owner` the owner of this unowned span, full or not. Returns false if it has got an owner
// meanwhile.
bool central_claim(Span* span, const void* owner);

// Frees `count` blocks of an unowned span. Returns false if the span has got an owner meanwhile:
// the caller must try again.
bool central_free(Span* span, Block* first, Block* last, uint32_t count);

// Returns up to `count` linked, null-terminated blocks of one shared span, counted as live; 0 when
// out of memory. They are freed through central_free.
uint32_t central_take_shared_blocks(unsigned size_class, uint32_t count, Block** first);

// Gives `count` ≤ kMaxGatheredBlocks blocks of any spans, all of them counted as live there, to the
// next thread that would otherwise need a new span. So threads that free many blocks of a sleeping
// thread's spans can use them themselves. Returns false if there is no space: the caller publishes
// them (remote.h).
bool central_put_batch(unsigned size_class, Block* const* blocks, uint32_t count);
// Takes one such batch; 0 if there is none.
uint32_t central_take_batch(unsigned size_class, Block** blocks);
// Number of blocks in such batches.
size_t central_batch_blocks(unsigned size_class);
// Takes a batch that was not needed since the last scan, or any. Returns 0 if there is none: the
// scan has ended.
uint32_t central_take_unneeded(unsigned size_class, bool all, Block** blocks);

// For holes.cc. Takes a span off its list that has been there for at least this many periods and
// may have holes. Returns null if there is none, with *more set if it stopped because it has
// checked kMaxSpansPerScan spans. Frees into the span continue as before, but no thread allocates
// from it.
Span* central_detach(unsigned size_class, uint32_t least_periods, bool* more);
// The lock under which other threads change a detached span's counts.
Lock& central_lock(unsigned size_class);
// Puts the span back on its list, or releases it to the page heap if all its blocks have been freed
// meanwhile.
void central_reattach(Span* span);

// Releases empty shared spans that have not been needed since the last call.
void central_release_empty_shared();

void lock_central_for_fork();
void unlock_central_after_fork();
// For verify.h: the broken invariant of a class's lists, or null.
using VerifySpan = const char* (*)(const Span& span);
const char* verify_central(unsigned size_class, VerifySpan verify_span);

}  // namespace seemalloc::heap
