#include "core/pages/huge/huge_moving.h"

#include <string.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/huge_state.h"

namespace seemalloc::pages::huge {

namespace {

// Smaller extents are not moved: each call costs as much as about 10 page faults.
constexpr size_t kMinMovedBytes = 64 * KiB;
constexpr unsigned kMaxMovedExtents = 32;
// A block with more than one part per this many bytes is cheaper to copy than to move.
constexpr size_t kBytesPerMove = 128 * KiB;
// Each refused move may cost address space. After this many, a move is tried only now and then
// until everything is purged.
constexpr unsigned kMaxRefusedMoves = 8;
// Time between such tries, in purge delays; one second is added.
constexpr unsigned kDelaysBetweenMoveRetries = 64;

constinit std::atomic<unsigned> refused_moves{0};
constinit std::atomic<uint64_t> last_refused_ns{0};

// Moves one part to `at` in the target, with `room` bytes mapped behind it (os::move_pages), which
// the next move replaces.
bool move_part(const Range& part, uintptr_t at, size_t room, MoveTarget* target) {
  DCHECK(part.bytes != 0 && at >= target->range.start &&
         at + part.bytes + room <= target->range.end());
  forget_huge_mapping(part);
  Range moved{at, part.bytes + room};
  os::Moved result =
      os::move_pages(pointer(part.start), part.bytes, pointer(at), moved.bytes, os::Reason::kHuge);
  if (result == os::Moved::kYes) {
    replace_huge_mapping(moved);
    return true;
  }
  last_refused_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  refused_moves.fetch_add(1, std::memory_order_relaxed);
  if (result == os::Moved::kRefusedTargetLost) {
    target->hole = moved;
    note_lost_huge_mapping(moved);
  }
  note_huge_mapping(part);
  return false;
}

// Moves an extent to `at`. If a move is refused, unmaps the rest of the extent. Also unmaps the
// last granule of an extent that would reach the end of the target, because every move needs room
// behind it.
bool move_extent(Range extent, uintptr_t at, MoveTarget* target) {
  DCHECK(at + extent.bytes <= target->range.end());
  if (at + extent.bytes == target->range.end()) {
    extent.bytes -= huge_granule();
    discard_huge(Range{extent.end(), huge_granule()});
  }
  while (extent.bytes != 0) {
    Range part = first_single_mapping(extent);
    if (!move_part(part, at, huge_granule(), target)) {
      discard_huge(extent);
      return false;
    }
    at += part.bytes;
    extent = Range{part.end(), extent.bytes - part.bytes};
  }
  return true;
}

// False if the program has split the mapping (madvise, mlock, mprotect of a part). Such a block is
// copied, which makes it one mapping again.
bool is_unsplit_mapping(Range memory) {
  while (memory.bytes != 0) {
    Range part = first_single_mapping(memory);
    if (!os::is_one_mapping(pointer(part.start), part.bytes, os::Reason::kHuge)) return false;
    memory = Range{part.end(), memory.bytes - part.bytes};
  }
  return true;
}

}  // namespace

void discard_target(const MoveTarget& target) {
  DCHECK(target.hole.bytes == 0 || target.hole.start >= target.range.start);
  DCHECK(target.hole.bytes == 0 || target.hole.end() <= target.range.end());
  if (target.hole.bytes == 0) return discard_huge(target.range);
  discard_huge(Range{target.range.start, target.hole.start - target.range.start});
  discard_huge(Range{target.hole.end(), target.range.end() - target.hole.end()});
}

bool may_move() {
  if (refused_moves.load(std::memory_order_relaxed) < kMaxRefusedMoves) return true;
  uint64_t wait_ns = kSecondNs + kDelaysBetweenMoveRetries *
                                     options::get(options::Id::purge_delay) * kMillisecondNs;
  if (os::coarse_monotonic_ns() - last_refused_ns.load(std::memory_order_relaxed) < wait_ns)
    return false;
  refused_moves.store(kMaxRefusedMoves - 1, std::memory_order_relaxed);
  return true;
}

void retry_moves() { refused_moves.store(0, std::memory_order_relaxed); }

bool fill_from_cache(uintptr_t at, MoveTarget* target) {
  struct Extents {
    Extent at[kMaxMovedExtents];
  };
  os::Scratch<Extents> memory;
  if (!memory) return true;
  Extent* extents = memory->at;
  unsigned count = 0;
  if (may_move() && boundaries_are_known()) {
    AccountingGuard guard;
    count = cache.take_extents(target->range.end() - at, kMinMovedBytes, extents, kMaxMovedExtents);
  }
  DCHECK(at >= target->range.start && count <= kMaxMovedExtents);
  if (count != 0) target->filled = at;
  bool sound = true;
  for (unsigned i = 0; i < count; i++) {
    const Extent& extent = extents[i];
    if (!sound) {
      put_in_cache(extent);
      continue;
    }
    sound = move_extent(Range{extent.start, extent.bytes}, at, target);
    at += extent.bytes;
    target->reused += extent.bytes;
  }
  return sound;
}

bool move_block(const Range& from, const Range& spare, MoveTarget* target) {
  DCHECK(target->range.bytes >= from.bytes && (spare.bytes == 0 || spare.bytes >= from.bytes));
  Range rest = from;
  uintptr_t at = target->range.start;
  while (rest.bytes != 0) {
    Range part = first_single_mapping(rest);
    size_t room = part.bytes == rest.bytes ? target->filled - (at + part.bytes) : huge_granule();
    if (!move_part(part, at, room, target)) break;
    at += part.bytes;
    rest = Range{part.end(), rest.bytes - part.bytes};
  }
  if (rest.bytes == 0) return true;
  if (rest.start == from.start) return false;
  size_t moved = from.bytes - rest.bytes;
  memcpy(pointer(spare.start), pointer(target->range.start), moved);
  memcpy(pointer(spare.start + moved), pointer(rest.start), rest.bytes);
  discard_huge(rest);
  discard_target(*target);
  *target = MoveTarget{spare};
  return true;
}

bool movable(const Range& memory) {
  if (!may_move() || !boundaries_are_known() ||
      boundaries_inside(memory) > memory.bytes / kBytesPerMove)
    return false;
  return is_unsplit_mapping(memory);
}

}  // namespace seemalloc::pages::huge
