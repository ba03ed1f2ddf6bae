// Where span records come from. Recycled, never given back to the system: a stale pointer to one always reads a Span.
#pragma once

#include "core/pages/span.h"

namespace seemalloc::pages {

// A reset record, or null when the OS refuses memory.
Span* take_span(SpanKind kind);
void give_span(Span* span);
void lock_span_pool_for_fork();
void unlock_span_pool_after_fork();

}  // namespace seemalloc::pages
