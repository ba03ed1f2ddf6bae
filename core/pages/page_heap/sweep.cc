#include "core/pages/page_heap/sweep.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/pages/policy/purge_budget.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

std::atomic<bool> any_immediate{false};
std::atomic<bool> lazy_refused{false};  // the kernel does not support MADV_FREE

// ---- detaching ----

struct Range {
  uint16_t first, pages;
};

// Runs of one region that are being purged.
struct Batch {
  Region* region = nullptr;
  bool splits_huge_page = false;
  unsigned count = 0;
  Range ranges[kPagesPerRegion / 2];
};

PageBits selected_pages(const Region* region, PageSelection selection) {
  PageBits pages = region->due;
  if (selection != PageSelection::kDue) pages |= region->old;
  if (selection == PageSelection::kDirty || selection == PageSelection::kEverything)
    pages |= region->young;
  if (selection == PageSelection::kEverything) pages |= region->lazy;
  return pages;
}

void detach_range_locked(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  DCHECK(!region->used.any(first, pages) && !region->purging.any(first, pages));
  DCHECK(!region->resting && shard.dirty_pages >= region->dirty().count(first, pages));
  shard.dirty_pages -= region->dirty().count(first, pages);
  // All detached pages are charged.
  if (!region->lazy.empty()) memory_account.add(region->lazy.count(first, pages) * kPageBytes);
  region->used.set(first, pages);
  region->purging.set(first, pages);
  region->clear_dirty(first, pages);
  region->lazy.clear(first, pages);
  clear_spare(region, first, pages);
}

// Whether the region is on a huge page that must stay although these pages are free. When all free
// pages of a dense region are due, the region rests: its spare pages become ordinary free memory,
// so that any span may use them.
bool keeps_huge_page_locked(Shard& shard, Region* region, const PageBits& pages,
                            SplitHugePages split_huge_pages) {
  if (!region->on_huge_page || split_huge_pages == SplitHugePages::kAny ||
      pages.count() == kPagesPerRegion)
    return false;
  if (split_huge_pages == SplitHugePages::kNone) return true;
  if (region->used.count() < kDensePages) return false;
  bool settled = region->young.empty() && region->old.empty() && region->lazy.empty() &&
                 region->purging.empty();
  if (!pages.empty()) clear_spare(region, 0, kPagesPerRegion);
  if (settled) shard.hide_from_purge(region);
  return true;
}

// Detaches the runs of a region that the sweep selects: they count as used.
void detach_locked(Shard& shard, Region* region, SweepState* s, Batch* batch) {
  batch->region = region;
  DCHECK(shard.lock.is_held());
  batch->count = 0;
  PageBits pages = selected_pages(region, s->selection);
  if (region->collapsing || keeps_huge_page_locked(shard, region, pages, s->split_huge_pages))
    return;
  if (region->resting) shard.show_to_purge(region);  // it had ripe runs
  unsigned first = 0, length = 0;
  for (unsigned from = 0; s->pages_left != 0 && pages.next_run(true, from, &first, &length);
       from = first + length) {
    if (length < s->min_run_pages) continue;
    detach_range_locked(shard, region, first, length);
    DCHECK(batch->count < kPagesPerRegion / 2);
    batch->ranges[batch->count++] =
        Range{static_cast<uint16_t>(first), static_cast<uint16_t>(length)};
    s->pages_left -= length < s->pages_left ? length : s->pages_left;
  }
  if (batch->count == 0) return;
  batch->splits_huge_page = region->on_huge_page && batch->ranges[0].pages != kPagesPerRegion;
  region->on_huge_page = false;
  shard.move_to_bucket(region);
}

enum class Next { kFound, kContinue, kEnd };

// Detaches runs of the next region that has any. Checks only a few regions at a time, so that other
// threads get the lock.
Next detach_next_locked(Shard& shard, WalkPosition* position, SweepState* s, Batch* batch) {
  for (unsigned looks = 0; s->pages_left != 0; looks++) {
    if (looks == kChecksPerLock) return Next::kContinue;
    Region* region = shard.next_dirty_after(position->last_visited);
    if (region == nullptr) return Next::kEnd;
    // Not as soon as all its pages are detached: pages whose purge is refused would put the region
    // in front of a walk that has no position yet.
    if (region->dirty().empty() && region->lazy.empty() && region->purging.empty()) {
      shard.take_off_dirty_list(position->last_visited);
      continue;
    }
    position->last_visited = region;
    detach_locked(shard, region, s, batch);
    if (batch->count != 0) return Next::kFound;
  }
  return Next::kEnd;
}

bool detach_immediate_locked(Shard& shard, SweepState* s, Batch* batch) {
  while (Region* region = shard.immediate) {
    DCHECK(region->immediate);
    shard.immediate = region->next_immediate;
    region->immediate = false;
    detach_locked(shard, region, s, batch);
    if (batch->count != 0) return true;
  }
  return false;
}

// ---- purging ----

enum class PurgeMethod { kNow, kLazily };

PurgeMethod purge_method(const SweepState& s) {
  bool lazily = options::get(options::Id::purge_free) != 0 && !s.on_request;
  return lazily && !lazy_refused.load(std::memory_order_relaxed) ? PurgeMethod::kLazily
                                                                 : PurgeMethod::kNow;
}

// The part of a range that can be purged: its whole OS pages.
Range whole_os_pages(const Region* region, const Range& range) {
  uintptr_t start = round_up(region->address_of(range.first), os::page_bytes());
  uintptr_t end = round_down(region->address_of(range.first + range.pages), os::page_bytes());
  if (start >= end) return Range{range.first, 0};
  return Range{static_cast<uint16_t>(region->page_of(start)),
               static_cast<uint16_t>((end - start) >> kPageShift)};
}

// Returns false when refused.
bool purge_range(const Batch& batch, const Range& range, PurgeMethod how, os::Reason reason) {
  Range whole = whole_os_pages(batch.region, range);
  if (whole.pages == 0) return false;
  DCHECK(whole.first >= range.first && whole.first + whole.pages <= range.first + range.pages);
  void* memory = reinterpret_cast<void*>(batch.region->address_of(whole.first));
  size_t bytes = whole.pages * kPageBytes;
  if (how == PurgeMethod::kNow && batch.splits_huge_page && &range == batch.ranges)
    os::split_huge_page(memory, bytes);
  bool gone = how == PurgeMethod::kNow ? os::purge(memory, bytes, reason)
                                       : os::purge_lazily(memory, bytes, reason);
  if (!gone && how == PurgeMethod::kLazily) lazy_refused.store(true, std::memory_order_relaxed);
  return gone;
}

// The pages become free again. Those not purged are dirty, as if just freed.
void reattach_locked(Shard& shard, Region* region, const Range& range, const Range& gone) {
  DCHECK(shard.lock.is_held());
  DCHECK(region->used.count(range.first, range.pages) == range.pages);
  DCHECK(region->purging.count(range.first, range.pages) == range.pages);
  DCHECK(!region->is_dirty(range.first, range.pages) && !region->resting);
  DCHECK(gone.first >= range.first && gone.first + gone.pages <= range.first + range.pages);
  region->used.clear(range.first, range.pages);
  region->purging.clear(range.first, range.pages);
  memory_account.uncharge(gone.pages * kPageBytes);
  if (gone.pages == range.pages) return;
  region->young.set(range.first, range.pages);
  region->young.clear(gone.first, gone.pages);
  shard.dirty_pages += range.pages - gone.pages;
  shard.put_on_dirty_list(region);
}

// `purged`: indexed like the ranges of the batch.
void reattach_batch(Shard& shard, const Batch& batch, const PageBits& purged, PurgeMethod how,
                    bool on_request) {
  Region* region = batch.region;
  LockGuard guard(shard.lock);
  for (unsigned i = 0; i < batch.count; i++) {
    // In the child of a fork made by a signal handler that interrupted this function, they are
    // reattached already.
    if (!region->purging.any(batch.ranges[i].first, batch.ranges[i].pages)) continue;
    Range gone = purged.any(i, 1) ? whole_os_pages(region, batch.ranges[i])
                                  : Range{batch.ranges[i].first, 0};
    reattach_locked(shard, region, batch.ranges[i], gone);
    if (gone.pages == 0) continue;
    if (how == PurgeMethod::kLazily) {
      region->lazy.set(gone.first, gone.pages);
      shard.put_on_dirty_list(region);
    } else {
      note_purged(region, gone.first, gone.pages, on_request);
    }
  }
  shard.move_to_bucket(region);
}

void purge_batch(Shard& shard, const Batch& batch, SweepState* s) {
  PageBits purged;
  PurgeMethod how = purge_method(*s);
  size_t pages = 0;
  for (unsigned i = 0; i < batch.count; i++) {
    if (!purge_range(batch, batch.ranges[i], how, s->reason)) continue;
    purged.set(i, 1);
    pages += whole_os_pages(batch.region, batch.ranges[i]).pages;
  }
  reattach_batch(shard, batch, purged, how, s->on_request);
  s->purged_bytes += pages * kPageBytes;
  s->refused |= pages == 0;
}

// Charges the time since the last call to the budget.
void charge_budget(const SweepState& s, uint64_t* since_ns) {
  if (s.budget == nullptr) return;
  uint64_t now = os::thread_cpu_ns();
  s.budget->spent(now - *since_ns);
  *since_ns = now;
}

bool has_budget(const SweepState& s) { return s.budget == nullptr || s.budget->may_spend(); }

}  // namespace

void sweep(Shard& shard, SweepState* s) {
  constexpr unsigned kRegionsPerPayment = 8;
  WalkPosition position;
  {
    LockGuard guard(shard.lock);
    if (shard.dirty == nullptr) return;
    shard.begin_walk(&position);
  }
  uint64_t since_ns = s->budget != nullptr ? os::thread_cpu_ns() : 0;
  Batch batch;
  for (unsigned count = 1;; count++) {
    s->postponed = !has_budget(*s);
    Next next;
    {
      LockGuard guard(shard.lock);
      next = s->postponed ? Next::kEnd : detach_next_locked(shard, &position, s, &batch);
      if (next == Next::kEnd) shard.end_walk(&position);
    }
    if (next == Next::kEnd) break;
    if (next == Next::kFound) purge_batch(shard, batch, s);
    if (count % kRegionsPerPayment == 0) charge_budget(*s, &since_ns);
  }
  charge_budget(*s, &since_ns);
}

void unhide_resting_regions(Shard& shard) {
  for (bool more = true; more;) {
    LockGuard guard(shard.lock);
    for (unsigned i = 0; i < kChecksPerLock && shard.resting != nullptr; i++)
      shard.show_to_purge(shard.resting);
    more = shard.resting != nullptr;
  }
}

void sweep_all(SweepState* s) {
  for (unsigned i = 0; i < shards_in_use() && !s->postponed; i++) sweep(shards[i], s);
}

void queue_immediate_purge(Shard& shard, Region* region, unsigned first) {
  DCHECK(shard.lock.is_held());
  DCHECK(!region->resting && !region->used.test(first));
  if (region->immediate || region->dirty().set_run_around(first) < kMinPurgeCallPages) return;
  region->immediate = true;
  region->next_immediate = shard.immediate;
  shard.immediate = region;
  any_immediate.store(true, std::memory_order_relaxed);
}

size_t sweep_immediate() {
  if (!any_immediate.load(std::memory_order_relaxed) ||
      !any_immediate.exchange(false, std::memory_order_relaxed))
    return 0;
  SweepState s{PageSelection::kDirty, kMinPurgeCallPages};
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Batch batch;
    for (;;) {
      {
        LockGuard guard(shards[i].lock);
        if (!detach_immediate_locked(shards[i], &s, &batch)) break;
      }
      purge_batch(shards[i], batch, &s);
    }
  }
  return s.purged_bytes;
}

void reattach_all_locked(Shard& shard) {
  shard.walks = nullptr;
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (region->purging.empty()) continue;
    unsigned first = 0, length = 0;
    PageBits purging = region->purging;
    for (unsigned from = 0; purging.next_run(true, from, &first, &length); from = first + length) {
      // It is unknown whether the pages were purged, so they count as dirty.
      reattach_locked(shard, region,
                      Range{static_cast<uint16_t>(first), static_cast<uint16_t>(length)},
                      Range{static_cast<uint16_t>(first), 0});
    }
    shard.move_to_bucket(region);
  }
}

}  // namespace seemalloc::pages
