// Moves pages of huge blocks and cached extents to other addresses (mremap). Callers: the files
// that implement huge.h. No lock is held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/huge/address_range.h"

namespace seemalloc::pages::huge {

// The range that memory is moved to. A refused move may leave a hole in it, which may already be
// mapped by another thread.
struct MoveTarget {
  Range range{0, 0};
  Range hole{0, 0};
  uintptr_t filled = range.end();  // the range has moved extents from this address on
  size_t reused = 0;               // bytes of these extents: memory that we already had
};

// Unmaps the target, except its hole.
void discard_target(const MoveTarget& target);

// False for some time after moves have been refused.
bool may_move();
// Forgets refusals.
void retry_moves();

// Moves cached extents into the target from `at` on, until the target is full or no suitable extent
// is left. Returns false when a move was refused: the caller must abandon the target.
bool fill_from_cache(uintptr_t at, MoveTarget* target);

// Moves the block's pages part by part. If a move is refused in the middle, the whole block is
// copied to the spare range, which is mapped in advance for this case: once the block is in two
// parts, no further step can fail.
bool move_block(const Range& from, const Range& spare, MoveTarget* target);

// Whether the memory can be moved, and moving is cheaper than copying.
bool movable(const Range& memory);

// Of `bytes` that were added to blocks, the part that was not moved into the target.
inline size_t fresh_bytes(size_t bytes, const MoveTarget& target) {
  return bytes > target.reused ? bytes - target.reused : 0;
}

}  // namespace seemalloc::pages::huge
