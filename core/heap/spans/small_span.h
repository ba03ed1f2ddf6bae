// Small spans: makes, carves and releases the spans that are cut into blocks of one class.
// Threads: any; each span has one owner, or the lock of its list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// Makes a span of the class; null when out of memory. The caller sets the owner and publishes it.
Span* new_small_span(unsigned shard, unsigned size_class, unsigned growth, pages::SpanKind kind);
// Carves the next blocks from the span's untouched end. Returns their number; *first is their list,
// null-terminated.
uint32_t carve_blocks(Span* span, Block** first);
// Carves `count` blocks from the span's untouched end and links the last one to `behind`. Returns
// the first.
Block* carve_and_link(Span* span, uint32_t count, Block* behind);
// Releases a span to the page heap. Requires: it has no live blocks and is on none of its owner's
// lists.
void release_empty_span(Span* span);

}  // namespace seemalloc::heap
