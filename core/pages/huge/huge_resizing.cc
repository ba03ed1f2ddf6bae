// Resizing of huge blocks: within their memory, into the memory behind them, or by moving pages.
#include "core/base/check.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_moving.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/huge_state.h"
#include "core/pages/span/growth.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::pages {

namespace huge {
namespace {

// For a size that the memory of the block already covers. The excess of a block that shrinks is
// freed if it is large enough to be worth a system call.
void resize_within(Span* span, size_t bytes) {
  Range memory = memory_of(span);
  DCHECK(bytes != 0 && bytes <= memory.bytes);
  Range rest{memory.start + bytes, memory.bytes - bytes};
  bool give = bytes < span->bytes && rest.bytes >= kMinSplitRestBytes;
  ScopedCharge hold;
  if (give) {
    hold.add(rest.bytes);
    memory.bytes = bytes;
  }
  set_sizes(span, memory, bytes);
  if (give) cache_or_discard(rest, span->known_dense);
}

// The size to grow to. A block that grows by little for the second time will probably do so again,
// so it gets an eighth more.
size_t with_growth_reserve(const Span* span, size_t bytes) {
  if (span->carved == 0 || bytes - span->bytes > bytes / 4) return bytes;
  return rounded(bytes + bytes / 8);
}

// Takes the memory behind the block, cached or not yet mapped. On success the block has `whole`
// bytes.
bool grow_in_place(Span* span, size_t bytes, size_t whole) {
  Range memory = memory_of(span);
  DCHECK(whole >= bytes && whole > memory.bytes);
  MoveTarget more{Range{memory.end(), whole - memory.bytes}};
  ScopedCharge growth;
  bool cached, dense = false;
  {
    AccountingGuard guard;
    Extent behind;
    cached = cache.take_at(more.range.start, more.range.bytes, &behind);
    if (cached) growth.add(more.range.bytes);
    dense = cached && !behind.sparse;
  }
  if (!cached) {
    if (!growth.charge(more.range.bytes)) return false;
    if (!take_retained_huge_at(more.range) && !map_huge_at(more.range)) return false;
    if (!fill_from_cache(more.range.start, &more)) {
      discard_target(more);
      return false;
    }
    note_if_any(fresh_bytes(more.range.bytes, more));
  }
  set_sizes(span, Range{memory.start, whole}, bytes);
  span->known_dense = span->known_dense && dense;
  span->carved++;
  return true;
}

// Maps the ranges for a block that is to grow: one to move it to and, if the move takes several
// calls, a spare one.
bool map_move_ranges(const Range& memory, size_t bytes, Range* place, Range* spare) {
  *spare = Range{0, 0};
  if (!map_huge(bytes, kPageBytes, place)) return false;
  bool in_parts = first_single_mapping(memory).bytes != memory.bytes;
  if (page_map.reserve(place->start, kPageBytes) &&
      (!in_parts ||
       (map_huge(bytes, kPageBytes, spare) && page_map.reserve(spare->start, kPageBytes)))) {
    return true;
  }
  discard_huge(*place);
  discard_huge(*spare);
  return false;
}

bool grow_by_moving(Span* span, size_t bytes, size_t whole) {
  Range memory = memory_of(span);
  Range place, spare;
  if (!movable(memory)) return false;
  if (!memory_account.has_room(whole - memory.bytes)) whole = bytes;
  ScopedCharge growth;
  if (!growth.charge(whole - memory.bytes)) return false;
  if (!map_move_ranges(memory, whole, &place, &spare) &&
      (whole == bytes || !map_move_ranges(memory, bytes, &place, &spare)))
    return false;
  MoveTarget target{place};
  moving_blocks.fetch_add(1);
  page_map.set_foreign(span->start, kPageBytes);  // before another thread may map the addresses
  bool moved = fill_from_cache(target.range.start + memory.bytes + huge_granule(), &target) &&
               move_block(memory, spare, &target);
  if (!moved) discard_target(target);
  if (target.range.start != spare.start) discard_huge(spare);
  if (moved) {
    note_if_any(fresh_bytes(target.range.bytes - memory.bytes, target));
    set_sizes(span, target.range, bytes);
    span->known_dense = false;
    span->carved++;
  }
  page_map.set(span->start, kPageBytes, span);
  moving_blocks.fetch_sub(1);
  return moved;
}

}  // namespace
}  // namespace huge

bool resize_huge(Span* span, size_t bytes) {
  DCHECK(span->kind == SpanKind::kHuge && page_map.span_of(huge::pointer(span->start)) == span);
  bytes = huge::rounded(bytes);
  if (bytes <= huge::memory_of(span).bytes) {
    huge::resize_within(span, bytes);
    return true;
  }
  size_t whole = huge::with_growth_reserve(span, bytes);
  return huge::grow_in_place(span, bytes, whole) ||
         (whole != bytes && huge::grow_in_place(span, bytes, bytes)) ||
         huge::grow_by_moving(span, bytes, whole);
}

}  // namespace seemalloc::pages
