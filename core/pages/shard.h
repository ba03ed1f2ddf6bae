// Shard: some of the regions, under one lock, filed by their longest free run and listed when they have dirty pages.
//
// Who uses it: page_heap.cc hands runs out and takes them back, purge.cc gives dirty ones to the system. Threads: everything in
// a Shard and in its regions is under its lock. Cost: a few words, whatever the number of regions.
// Invariants:
//  1. a region is in the bucket of its longest_free, which is its longest run of pages not in `used`.
//  2. a region with dirty or lazy pages is on the dirty list, unless it rests; one without may still be.
//  3. used_pages, and dirty_pages with resting_pages, are the sums over the regions; pages being purged are neither.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/lock.h"
#include "core/pages/page_heap.h"
#include "core/pages/region.h"
#include "core/pages/region_walk.h"

namespace seemalloc::pages {

// How far a walk over the dirty list has come, while others go on changing it. On its thread's stack, known to the shard, both
// under its lock.
struct WalkPosition {
  Region* seen = nullptr;  // the last region on the list that the walk has done with; null: none
  WalkPosition* next = nullptr;
};

struct alignas(kCacheLineBytes) Shard {
  Lock lock;
  Region* buckets[kPagesPerRegion + 1];          // by longest free run
  uint64_t filled[kPagesPerRegion / 64 + 1];     // which buckets have a region
  Region* all;
  Region* dirty;  // regions with free dirty pages
  Region* resting;  // dense ones on huge pages, whose free pages stay
  WalkPosition* walks;  // over the dirty list, under way
  RegionCursor* cursors;  // of walks over all regions, under way
  Region* ripe;   // regions with a run to be purged at once (sweep.h)
  Region* next_look;  // where the search for dense regions goes on (collapse.h); null: at the first
  size_t used_pages;  // in spans
  size_t peak_pages;  // the most there have been in spans in this window
  size_t dirty_pages;
  size_t resting_pages;  // free and dirty, of regions that rest
  size_t refaulted_pages;  // purged and handed out again soon
  size_t refaulted_delayed_pages;  // of them, those that went by themselves
  size_t refaulted_runs;   // takes that met some
  size_t takes;            // runs handed out

  void file(Region* region) {
    unsigned longest = region->longest_free;
    region->prev = nullptr;
    region->next = buckets[longest];
    if (region->next != nullptr) region->next->prev = region;
    buckets[longest] = region;
    filled[longest / 64] |= uint64_t{1} << (longest % 64);
  }

  void unfile(Region* region) {
    unsigned longest = region->longest_free;
    (region->prev != nullptr ? region->prev->next : buckets[longest]) = region->next;
    if (region->next != nullptr) region->next->prev = region->prev;
    if (buckets[longest] == nullptr) filled[longest / 64] &= ~(uint64_t{1} << (longest % 64));
  }

  void refile(Region* region, unsigned longest) {
    if (longest == region->longest_free) return;
    unfile(region);
    region->longest_free = static_cast<uint16_t>(longest);
    file(region);
  }
  void refile(Region* region) { refile(region, region->used.longest_clear_run()); }

  // The tightest bucket at or above `pages` that has a region; kPagesPerRegion + 1 when none.
  unsigned tightest(unsigned pages) const {
    for (unsigned word = pages / 64; word < sizeof(filled) / sizeof(filled[0]); word++) {
      uint64_t bits = filled[word];
      if (word == pages / 64) bits &= ~uint64_t{0} << (pages % 64);
      if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
    }
    return kPagesPerRegion + 1;
  }

  void add_to_all(Region* region) {
    region->next_all = all;
    region->prev_all = nullptr;
    if (all != nullptr) all->prev_all = region;
    all = region;
  }
  void remove_from_all(Region* region) {
    (region->prev_all != nullptr ? region->prev_all->next_all : all) = region->next_all;
    if (region->next_all != nullptr) region->next_all->prev_all = region->prev_all;
    for (RegionCursor* cursor = cursors; cursor != nullptr; cursor = cursor->next) {
      if (cursor->at == region) cursor->at = region->next_all;
    }
  }
  void begin_walk(RegionCursor* cursor) {
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

  // The region on the dirty list behind that one; the first behind null.
  Region* dirty_behind(const Region* before) const { return before != nullptr ? before->next_dirty : dirty; }
  void take_off_dirty_list(Region* before) {
    Region* region = dirty_behind(before);
    region->on_dirty_list = false;
    (before != nullptr ? before->next_dirty : dirty) = region->next_dirty;
    if (region->next_dirty != nullptr) region->next_dirty->prev_dirty = before;
    for (WalkPosition* walk = walks; walk != nullptr; walk = walk->next) {
      if (walk->seen == region) walk->seen = before;
    }
  }
  // Dirty pages of a region are counted there.
  size_t& dirty_count(const Region* region) { return region->resting ? resting_pages : dirty_pages; }
  // What is free of the region is out of the purge's sight. Requires: it is on the dirty list.
  void rest(Region* region) {
    take_off_dirty_list(region->prev_dirty);
    size_t pages = region->dirty().count();
    dirty_pages -= pages;
    resting_pages += pages;
    region->resting = true;
    region->prev_dirty = nullptr;
    region->next_dirty = resting;
    if (resting != nullptr) resting->prev_dirty = region;
    resting = region;
  }
  void wake(Region* region) {
    (region->prev_dirty != nullptr ? region->prev_dirty->next_dirty : resting) = region->next_dirty;
    if (region->next_dirty != nullptr) region->next_dirty->prev_dirty = region->prev_dirty;
    region->resting = false;
    size_t pages = region->dirty().count();
    resting_pages -= pages;
    dirty_pages += pages;
    put_on_dirty_list(region);
  }
  void begin_walk(WalkPosition* walk) {
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
    if (region->on_dirty_list) return;
    region->on_dirty_list = true;
    region->next_dirty = dirty;
    region->prev_dirty = nullptr;
    if (dirty != nullptr) dirty->prev_dirty = region;
    dirty = region;
  }
};

// By processor number; the first shards_in_use() of them have regions.
extern constinit Shard shards[kMaxShards] SEEMALLOC_HIDDEN;
unsigned shards_in_use();

// Pages of huge pages that nobody has had yet, and what a huge page on its way may bring (page_heap.cc).
extern std::atomic<size_t> spare_pages SEEMALLOC_HIDDEN;
// These pages, if they are spare, are not any more.
inline void forget_spare(Region* region, unsigned first, unsigned pages) {
  if (!region->spare.any(first, pages)) return;
  unsigned before = region->spare.count();
  region->spare.clear(first, pages);
  spare_pages.fetch_sub(before - region->spare.count(), std::memory_order_relaxed);
}

}  // namespace seemalloc::pages
