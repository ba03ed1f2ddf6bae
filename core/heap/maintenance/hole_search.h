// Hole search: steps 2 and 3 of holes.h, as templates over the types of spans and blocks, whose
// words may be those of another machine (core/os/kernel/real_machine.h). So holes_model_test.cc
// runs this code in every interleaving.
//
// Caller: holes.cc. Threads: the purger, of which there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/size_class.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap::hole_search {

// ---- pages of a span ----

template <typename S>
unsigned page_at(const S* span, uintptr_t address) {
  return static_cast<unsigned>((address >> page_shift()) - (span->start >> page_shift()));
}

// The pages that [start, end) of the span touches.
template <typename S>
uint32_t pages_touched(const S* span, uintptr_t start, uintptr_t end) {
  DCHECK(start < end && page_at(span, end - 1) < 32);
  return (UINT32_MAX << page_at(span, start)) & (UINT32_MAX >> (31 - page_at(span, end - 1)));
}
static_assert(kMaxSpanPages * kPageBytes / 4096 <= 32);  // no OS page is smaller

// Pages that belong to the span alone (OS pages may be larger than ours) and that may have been
// written to.
template <typename S>
uint32_t purgeable_pages(const S* span) {
  uintptr_t end =
      span->start + (span->known_zero ? size_t{span->carved} * span->block_bytes : span->bytes);
  uintptr_t first = round_up(span->start, os::page_bytes()),
            last = round_down(span->start + span->bytes, os::page_bytes());
  if (end > last) end = last;
  return first < end ? pages_touched(span, first, end) : 0;
}

// ---- free blocks of a detached span ----

// These arrays belong to the purger, of which there is one; they are too large for a stack.
inline constexpr uint32_t kMaxBlocks = kMaxSpanPages * kPageBytes / 8;
inline uint16_t listed[kMaxBlocks];  // indexes of the list's blocks behind the first, in list order
inline uint64_t is_free[kMaxBlocks / 64];  // by index: the listed blocks, and those in holes

template <typename B>
struct FreeList {
  B* first;        // stays where it is: the owner frees in front of it
  uint32_t count;  // number of blocks, `first` included
};

template <typename S, typename B>
uint32_t number_of(const S* span, const B* block) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(block) - span->start) /
                               span->block_bytes);
}

// Returns false if the block is marked already.
inline bool mark_free(uint32_t number) {
  DCHECK(number < kMaxBlocks);
  uint64_t bit = uint64_t{1} << (number % 64);
  if ((is_free[number / 64] & bit) != 0) return false;
  is_free[number / 64] |= bit;
  return true;
}

// Prefetches all cache lines with links at once; following the list would wait for one after the
// other.
template <typename S>
void prefetch_links(const S* span) {
  size_t step = span->block_bytes < kCacheLineBytes ? kCacheLineBytes : span->block_bytes;
  uintptr_t end = span->start + size_t{span->carved} * span->block_bytes;
  for (uintptr_t at = span->start; at < end; at += step)
    __builtin_prefetch(reinterpret_cast<const void*>(at));
}

// Reads the list into `listed` and `is_free`. Returns false if the list does not match the count:
// the program has written to freed blocks (their owner will report it), or is freeing a block right
// now.
template <typename S, typename B>
bool copy_free_list(const S* span, const FreeList<B>& list) {
  prefetch_links(span);
  uint32_t behind = 0;
  for (const B* block = list.first->next; block != nullptr; block = block->next) {
    if (behind + 1 >= list.count || block == list.first || !span->is_carved_block(block))
      return false;
    uint32_t number = number_of(span, block);
    if (!mark_free(number)) return false;
    listed[behind++] = static_cast<uint16_t>(number);
  }
  return behind + 1 == list.count;
}

template <typename S>
bool mark_hole_blocks(const S* span) {
  for (uint32_t pages = span->holes; pages != 0; pages &= pages - 1) {
    BlockRange range = blocks_starting_in(span, lowest_page(pages));
    for (uint32_t i = range.first; i < range.end; i++) {
      if (!mark_free(i)) return false;
    }
  }
  return true;
}

// The pages touched by a block that is not free, and the page of the first free block's link.
template <typename S, typename B>
uint32_t busy_pages(const S* span, const B* first) {
  uintptr_t link = reinterpret_cast<uintptr_t>(first);
  uint32_t busy = pages_touched(span, link, link + sizeof(Block));
  for (uint32_t from = 0; from < span->carved; from += 64) {
    uint64_t others = ~is_free[from / 64];
    for (; others != 0; others &= others - 1) {
      uint32_t number = from + static_cast<uint32_t>(__builtin_ctzll(others));
      if (number >= span->carved) break;
      uintptr_t block = reinterpret_cast<uintptr_t>(span->block_at(number));
      if (block != link) busy |= pages_touched(span, block, block + span->block_bytes);
    }
  }
  return busy;
}

// Returns the pages to purge: the new holes. Returns 0 if there are none, or too few to split a
// huge page for them.
template <typename S, typename B>
uint32_t find_holes(const S* span, const FreeList<B>& list) {
  DCHECK(span->carved <= kMaxBlocks && list.count <= span->carved);
  for (uint32_t word = 0; word * 64 < span->carved; word++) is_free[word] = 0;
  if (list.first == nullptr || !copy_free_list(span, list) || !mark_hole_blocks(span)) return 0;
  uint32_t pages = purgeable_pages(span) & ~busy_pages(span, list.first) & ~span->holes;
  unsigned all = static_cast<unsigned>(span->bytes / os::page_bytes());
  bool enough =
      static_cast<unsigned>(__builtin_popcount(pages)) * 2 >= all || !is_on_huge_page(span);
  return enough ? pages : 0;
}

// Takes the blocks that start in these pages off the list.
template <typename S, typename B>
void unlink_blocks(S* span, const FreeList<B>& list, uint32_t pages) {
  DCHECK(pages != 0 && (span->holes & pages) == 0);
  B* kept = list.first;
  uint32_t holes = 0, unlinked = 0;
  bool gap = false;
  for (uint32_t i = 0; i + 1 < list.count; i++) {
    B* block = span->block_at(listed[i]);
    uint32_t page = uint32_t{1} << page_at(span, reinterpret_cast<uintptr_t>(block));
    if ((pages & page) != 0) {
      holes |= page;
      unlinked++;
      gap = true;
      continue;
    }
    if (gap) kept->next = block;
    gap = false;
    kept = block;
  }
  if (gap) kept->next = nullptr;
  span->add_holes(holes, unlinked);
}

// Step 2: reads the list. L is the lock under which other threads change the counts. The count is
// loaded first: every block that it counts is on the list.
template <typename S, typename L>
auto read_free_list(S* span, L& lock) {
  LockGuard guard(lock);
  uint32_t count = listed_blocks(span);
  auto* first = span->free_list_acquire();
  return FreeList<std::remove_pointer_t<decltype(first)>>{first, count};
}

// Steps 2 and 3. Returns the pages to purge.
template <typename S, typename L>
uint32_t make_holes(S* span, L& lock) {
  auto list = read_free_list(span, lock);
  uint32_t pages = find_holes(span, list);
  if (pages == 0) return 0;
  LockGuard guard(lock);
  unlink_blocks(span, list, pages);
  return pages;
}

}  // namespace seemalloc::heap::hole_search
