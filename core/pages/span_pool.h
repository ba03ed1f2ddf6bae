// Where span records come from: pages of records, each with a header in place of its first. A heap that has been large has many, so
// pages of which all records are free go back to the system after a while.
//
// A stale pointer to a record reads a Span, one that is free (kFree, of nobody), or zeros where its page has gone back (kForeign, of no thread:
// null, which threads without a heap have).
// Threads: any; one lock, which no system call is made under but the arena's. Lock order: this one, then the arena's.
// Invariants: 1. a page is on the list `partial` (some of its records are free), on one of `empty` (all are), in `absent` (no memory, or all
// zero: every record may be carved), among those that are going, or nowhere (none is free), where recent ones are not free; 2. `absent` has room for all pages there are.
#pragma once

#include <cstddef>

#include "core/pages/span.h"

namespace seemalloc::pages {

// A reset record, or null when the OS refuses memory.
Span* take_span(SpanKind kind);
void give_span(Span* span);

// Gives pages back that have been empty since the last call (the others at the next), or all that are empty. Bytes that went.
size_t purge_old_span_records(size_t most_pages);
size_t purge_span_records();
// Bytes of records without memory behind them.
size_t absent_span_record_bytes();

void lock_span_pool_for_fork();
void unlock_span_pool_after_fork(bool in_child);

}  // namespace seemalloc::pages
