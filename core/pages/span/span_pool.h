// The pool of span records. It consists of pages of records, each with a header in place of its
// first record. A heap that has been large has many, so pages that have only free records are
// purged after a while.
//
// A stale pointer to a record reads a free Span (kFree, without an owner), or zeros if its page was
// purged (kForeign, with a null owner, which matches threads without a heap).
// Threads: any; one lock, under which only the arena makes system calls. Lock order: this one, then
// the arena's.
// Invariants:
//  1. a page is on the list `partial` (some of its records are free), on one of the `empty` lists
//     (all are free), in `purged_pages` (no memory, or all zero: every record may be carved), in
//     `pages_being_purged` (being purged), or on no list (none is free). Records in `recent` count
//     as not free.
//  2. `purged_pages` has room for all existing pages.
#pragma once

#include <cstddef>

#include "core/pages/span/span.h"

namespace seemalloc::pages {

// Returns a reset record, or null when the OS refuses memory.
Span* allocate_span_record(SpanKind kind);
void free_span_record(Span* span);

// The first function purges pages that have been empty since the last call (the others at the next
// call), the second all empty ones. Both return the bytes purged.
size_t purge_old_span_records(size_t most_pages);
size_t purge_span_records();
// Bytes of records without memory behind them.
size_t purged_span_record_bytes();

void lock_span_pool_for_fork();
void unlock_span_pool_after_fork(bool in_child);
// For verify.h: the broken invariant, or null.
const char* verify_span_pool();

}  // namespace seemalloc::pages
