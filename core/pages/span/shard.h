// Shard: a part of the regions under one lock, filed by their longest free run, and listed when
// they have dirty pages.
//
// Users: page_heap.cc allocates and frees runs, purge.cc purges dirty ones. Threads: a Shard and
// its regions are protected by its lock. Cost: a few words, whatever the number of regions.
// Invariants:
//  1. a region is in the bucket of its longest_free, which is its longest run of pages not in
//     `used`.
//  2. a region with dirty or lazy pages is on the dirty list, unless it is resting; one without may
//     still be on it.
//  3. used_pages, and dirty_pages plus resting_pages, are the sums over the regions; pages being
//     purged are in neither.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/region.h"

namespace seemalloc::pages {

// The position of a walk over the dirty list, which other threads change meanwhile. It is on the
// walking thread's stack and registered with the shard; both are protected by the shard's lock.
struct WalkPosition {
  // The last region on the list that the walk is done with; null: none.
  Region* last_visited = nullptr;
  WalkPosition* next = nullptr;
};

struct alignas(kCacheLineBytes) Shard {
  // Further invariants (verify.h):
  //  4. `all` has each region whose `shard` is this one, once.
  //  5. `immediate` has the regions whose `immediate` is set.
  Lock lock;
  Region* buckets[kPagesPerRegion + 1];                 // by longest free run
  uint64_t nonempty_buckets[kPagesPerRegion / 64 + 1];  // the buckets that have a region
  Region* all;
  Region* dirty;          // regions with free dirty pages
  Region* resting;        // dense ones on huge pages, whose free pages are not purged
  WalkPosition* walks;    // walks over the dirty list that are under way
  RegionCursor* cursors;  // of walks over all regions that are under way
  Region* immediate;      // regions with a run to purge immediately (sweep.h)
  // Where the search for dense regions continues (collapse.h); null: at the first.
  Region* next_collapse_check;
  size_t used_pages;  // in spans
  size_t peak_pages;  // highest used_pages in this window
  size_t dirty_pages;
  size_t resting_pages;            // free and dirty, of resting regions
  size_t refaulted_pages;          // purged and soon allocated again
  size_t refaulted_delayed_pages;  // of them, not purged on request or under pressure
  size_t refaulted_runs;           // allocations that reused purged pages
  size_t runs_allocated;           // runs allocated

  void insert_in_bucket(Region* region) {
    unsigned longest = region->longest_free;
    DCHECK(lock.is_held());
    DCHECK(longest <= kPagesPerRegion);
    region->prev = nullptr;
    region->next = buckets[longest];
    if (region->next != nullptr) region->next->prev = region;
    buckets[longest] = region;
    nonempty_buckets[longest / 64] |= uint64_t{1} << (longest % 64);
  }

  void remove_from_bucket(Region* region) {
    unsigned longest = region->longest_free;
    DCHECK(lock.is_held());
    DCHECK(region->prev != nullptr ? region->prev->next == region : buckets[longest] == region);
    DCHECK(region->next == nullptr || region->next->prev == region);
    (region->prev != nullptr ? region->prev->next : buckets[longest]) = region->next;
    if (region->next != nullptr) region->next->prev = region->prev;
    if (buckets[longest] == nullptr)
      nonempty_buckets[longest / 64] &= ~(uint64_t{1} << (longest % 64));
  }

  void move_to_bucket(Region* region, unsigned longest) {
    DCHECK(longest == region->used.longest_clear_run());
    if (longest == region->longest_free) return;
    remove_from_bucket(region);
    region->longest_free = static_cast<uint16_t>(longest);
    insert_in_bucket(region);
  }
  void move_to_bucket(Region* region) { move_to_bucket(region, region->used.longest_clear_run()); }

  // The tightest bucket at or above `pages` that has a region; kPagesPerRegion + 1 when none.
  unsigned tightest_bucket(unsigned pages) const {
    DCHECK(pages <= kPagesPerRegion + 1);
    for (unsigned word = pages / 64; word < sizeof(nonempty_buckets) / sizeof(nonempty_buckets[0]);
         word++) {
      uint64_t bits = nonempty_buckets[word];
      if (word == pages / 64) bits &= ~uint64_t{0} << (pages % 64);
      if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
    }
    return kPagesPerRegion + 1;
  }

  void add_to_all(Region* region) {
    DCHECK(lock.is_held());
    DCHECK(region->next_all == nullptr && region->prev_all == nullptr);
    region->next_all = all;
    region->prev_all = nullptr;
    if (all != nullptr) all->prev_all = region;
    all = region;
  }
  void remove_from_all(Region* region) {
    DCHECK(lock.is_held());
    DCHECK(region->prev_all != nullptr ? region->prev_all->next_all == region : all == region);
    (region->prev_all != nullptr ? region->prev_all->next_all : all) = region->next_all;
    if (region->next_all != nullptr) region->next_all->prev_all = region->prev_all;
    for (RegionCursor* cursor = cursors; cursor != nullptr; cursor = cursor->next) {
      if (cursor->at == region) cursor->at = region->next_all;
    }
  }
  void begin_walk(RegionCursor* cursor) {
    DCHECK(lock.is_held());
    cursor->next = cursors;
    cursors = cursor;
  }
  void end_walk(const RegionCursor* cursor) {
    for (RegionCursor** link = &cursors; *link != nullptr; link = &(*link)->next) {
      if (*link != cursor) continue;
      *link = cursor->next;
      return;
    }
  }

  // The region on the dirty list behind `before`; the first one for null.
  Region* next_dirty_after(const Region* before) const {
    return before != nullptr ? before->next_dirty : dirty;
  }
  void take_off_dirty_list(Region* before) {
    Region* region = next_dirty_after(before);
    DCHECK(lock.is_held());
    DCHECK(region != nullptr && region->on_dirty_list && region->prev_dirty == before);
    region->on_dirty_list = false;
    (before != nullptr ? before->next_dirty : dirty) = region->next_dirty;
    if (region->next_dirty != nullptr) region->next_dirty->prev_dirty = before;
    for (WalkPosition* walk = walks; walk != nullptr; walk = walk->next) {
      if (walk->last_visited == region) walk->last_visited = before;
    }
  }
  // The counter that holds the region's dirty pages.
  size_t& dirty_count(const Region* region) {
    return region->resting ? resting_pages : dirty_pages;
  }
  // Hides the region's free pages from the purge. Requires: it is on the dirty list.
  void hide_from_purge(Region* region) {
    DCHECK(region->on_huge_page && !region->resting && region->used.count() >= kDensePages);
    take_off_dirty_list(region->prev_dirty);
    size_t pages = region->dirty().count();
    DCHECK(dirty_pages >= pages);
    dirty_pages -= pages;
    resting_pages += pages;
    region->resting = true;
    region->prev_dirty = nullptr;
    region->next_dirty = resting;
    if (resting != nullptr) resting->prev_dirty = region;
    resting = region;
  }
  void show_to_purge(Region* region) {
    DCHECK(region->resting && !region->on_dirty_list);
    (region->prev_dirty != nullptr ? region->prev_dirty->next_dirty : resting) = region->next_dirty;
    if (region->next_dirty != nullptr) region->next_dirty->prev_dirty = region->prev_dirty;
    region->resting = false;
    size_t pages = region->dirty().count();
    DCHECK(resting_pages >= pages);
    resting_pages -= pages;
    dirty_pages += pages;
    put_on_dirty_list(region);
  }
  void begin_walk(WalkPosition* walk) {
    DCHECK(lock.is_held());
    walk->next = walks;
    walks = walk;
  }
  void end_walk(WalkPosition* walk) {
    for (WalkPosition** link = &walks; *link != nullptr; link = &(*link)->next) {
      if (*link != walk) continue;
      *link = walk->next;
      return;
    }
  }
  void put_on_dirty_list(Region* region) {
    DCHECK(lock.is_held());
    DCHECK(!region->resting);
    if (region->on_dirty_list) return;
    region->on_dirty_list = true;
    region->next_dirty = dirty;
    region->prev_dirty = nullptr;
    if (dirty != nullptr) dirty->prev_dirty = region;
    dirty = region;
  }
};

// Indexed by CPU number; the first shards_in_use() of them have regions.
extern constinit Shard shards[kMaxShards] SEEMALLOC_HIDDEN;
unsigned shards_in_use();
void set_shards_in_use(unsigned count);

// Pages of huge pages that were never allocated, plus the pages that expected huge pages may bring
// (page_heap.cc).
extern std::atomic<size_t> spare_pages SEEMALLOC_HIDDEN;
// Marks these pages as not spare.
inline void clear_spare(Region* region, unsigned first, unsigned pages) {
  if (!region->spare.any(first, pages)) return;
  unsigned before = region->spare.count();
  DCHECK(shards[region->shard].lock.is_held());
  DCHECK(spare_pages.load(std::memory_order_relaxed) >= region->spare.count(first, pages));
  region->spare.clear(first, pages);
  spare_pages.fetch_sub(before - region->spare.count(), std::memory_order_relaxed);
}

}  // namespace seemalloc::pages
