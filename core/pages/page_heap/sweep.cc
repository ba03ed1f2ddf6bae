#include "core/pages/page_heap/sweep.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/pages/policy/purge_budget.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/backing.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

std::atomic<bool> anything_ripe{false};
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

PageBits chosen_pages(const Region* region, What what) {
  PageBits pages = region->due;
  if (what != What::kDue) pages |= region->old;
  if (what == What::kDirty || what == What::kEverything) pages |= region->young;
  if (what == What::kEverything) pages |= region->lazy;
  return pages;
}

void detach_range_locked(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  DCHECK(!region->used.any(first, pages) && !region->purging.any(first, pages));
  DCHECK(!region->resting && shard.dirty_pages >= region->dirty().count(first, pages));
  shard.dirty_pages -= region->dirty().count(first, pages);
  // All detached pages are charged.
  if (!region->lazy.empty()) backing.add(region->lazy.count(first, pages) * kPageBytes);
  region->used.set(first, pages);
  region->purging.set(first, pages);
  region->forget_dirty(first, pages);
  region->lazy.clear(first, pages);
  forget_spare(region, first, pages);
}

// Whether the region is on a huge page that must stay although these pages are free. When all free
// pages of a dense region are due, the region rests: its spare pages become ordinary free memory,
// so that any span may use them.
bool keeps_huge_page_locked(Shard& shard, Region* region, const PageBits& pages, Apart apart) {
  if (!region->huge || apart == Apart::kAny || pages.count() == kPagesPerRegion) return false;
  if (apart == Apart::kNone) return true;
  if (region->used.count() < kDense_pages) return false;
  bool settled = region->young.empty() && region->old.empty() && region->lazy.empty() &&
                 region->purging.empty();
  if (!pages.empty()) forget_spare(region, 0, kPagesPerRegion);
  if (settled) shard.rest(region);
  return true;
}

// Detaches the runs of a region that the sweep selects: they count as used.
void detach_locked(Shard& shard, Region* region, Sweeping* s, Batch* batch) {
  batch->region = region;
  DCHECK(shard.lock.is_held());
  batch->count = 0;
  PageBits pages = chosen_pages(region, s->what);
  if (region->collapsing || keeps_huge_page_locked(shard, region, pages, s->apart)) return;
  if (region->resting) shard.wake(region);  // it had ripe runs
  unsigned first = 0, length = 0;
  for (unsigned from = 0; s->pages_left != 0 && pages.next_run(true, from, &first, &length);
       from = first + length) {
    if (length < s->least) continue;
    detach_range_locked(shard, region, first, length);
    DCHECK(batch->count < kPagesPerRegion / 2);
    batch->ranges[batch->count++] =
        Range{static_cast<uint16_t>(first), static_cast<uint16_t>(length)};
    s->pages_left -= length < s->pages_left ? length : s->pages_left;
  }
  if (batch->count == 0) return;
  batch->splits_huge_page = region->huge && batch->ranges[0].pages != kPagesPerRegion;
  region->huge = false;
  shard.refile(region);
}

enum class Next { kFound, kLookOn, kEnd };

// Detaches runs of the next region that has any. Checks only a few regions at a time, so that other
// threads get the lock.
Next detach_next_locked(Shard& shard, WalkPosition* position, Sweeping* s, Batch* batch) {
  for (unsigned looks = 0; s->pages_left != 0; looks++) {
    if (looks == kLooksPerLock) return Next::kLookOn;
    Region* region = shard.dirty_behind(position->seen);
    if (region == nullptr) return Next::kEnd;
    // Not as soon as all its pages are detached: pages whose purge is refused would put the region
    // in front of a walk that has no position yet.
    if (region->dirty().empty() && region->lazy.empty() && region->purging.empty()) {
      shard.take_off_dirty_list(position->seen);
      continue;
    }
    position->seen = region;
    detach_locked(shard, region, s, batch);
    if (batch->count != 0) return Next::kFound;
  }
  return Next::kEnd;
}

bool detach_ripe_locked(Shard& shard, Sweeping* s, Batch* batch) {
  while (Region* region = shard.ripe) {
    DCHECK(region->ripe);
    shard.ripe = region->next_ripe;
    region->ripe = false;
    detach_locked(shard, region, s, batch);
    if (batch->count != 0) return true;
  }
  return false;
}

// ---- purging ----

enum class How { kNow, kLazily };

How how_for(const Sweeping& s) {
  bool lazily = options::get(options::Id::purge_free) != 0 && !s.on_request;
  return lazily && !lazy_refused.load(std::memory_order_relaxed) ? How::kLazily : How::kNow;
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
bool purge_range(const Batch& batch, const Range& range, How how, os::Reason reason) {
  Range whole = whole_os_pages(batch.region, range);
  if (whole.pages == 0) return false;
  DCHECK(whole.first >= range.first && whole.first + whole.pages <= range.first + range.pages);
  void* memory = reinterpret_cast<void*>(batch.region->address_of(whole.first));
  size_t bytes = whole.pages * kPageBytes;
  if (how == How::kNow && batch.splits_huge_page && &range == batch.ranges)
    os::split_huge_page(memory, bytes);
  bool gone =
      how == How::kNow ? os::purge(memory, bytes, reason) : os::purge_lazily(memory, bytes, reason);
  if (!gone && how == How::kLazily) lazy_refused.store(true, std::memory_order_relaxed);
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
  backing.give_back(gone.pages * kPageBytes);
  if (gone.pages == range.pages) return;
  region->young.set(range.first, range.pages);
  region->young.clear(gone.first, gone.pages);
  shard.dirty_pages += range.pages - gone.pages;
  shard.put_on_dirty_list(region);
}

// `purged`: indexed like the ranges of the batch.
void reattach_batch(Shard& shard, const Batch& batch, const PageBits& purged, How how,
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
    if (how == How::kLazily) {
      region->lazy.set(gone.first, gone.pages);
      shard.put_on_dirty_list(region);
    } else {
      note_gone(region, gone.first, gone.pages, on_request);
    }
  }
  shard.refile(region);
}

void give_back(Shard& shard, const Batch& batch, Sweeping* s) {
  PageBits purged;
  How how = how_for(*s);
  size_t pages = 0;
  for (unsigned i = 0; i < batch.count; i++) {
    if (!purge_range(batch, batch.ranges[i], how, s->reason)) continue;
    purged.set(i, 1);
    pages += whole_os_pages(batch.region, batch.ranges[i]).pages;
  }
  reattach_batch(shard, batch, purged, how, s->on_request);
  s->given_bytes += pages * kPageBytes;
  s->refused |= pages == 0;
}

// Charges the time since the last call to the budget.
void pay(const Sweeping& s, uint64_t* since_ns) {
  if (s.budget == nullptr) return;
  uint64_t now = os::thread_cpu_ns();
  s.budget->spent(now - *since_ns);
  *since_ns = now;
}

bool may_go_on(const Sweeping& s) { return s.budget == nullptr || s.budget->may_spend(); }

}  // namespace

void sweep(Shard& shard, Sweeping* s) {
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
    s->postponed = !may_go_on(*s);
    Next next;
    {
      LockGuard guard(shard.lock);
      next = s->postponed ? Next::kEnd : detach_next_locked(shard, &position, s, &batch);
      if (next == Next::kEnd) shard.end_walk(&position);
    }
    if (next == Next::kEnd) break;
    if (next == Next::kFound) give_back(shard, batch, s);
    if (count % kRegionsPerPayment == 0) pay(*s, &since_ns);
  }
  pay(*s, &since_ns);
}

void wake_resting(Shard& shard) {
  for (bool more = true; more;) {
    LockGuard guard(shard.lock);
    for (unsigned i = 0; i < kLooksPerLock && shard.resting != nullptr; i++)
      shard.wake(shard.resting);
    more = shard.resting != nullptr;
  }
}

void sweep_all(Sweeping* s) {
  for (unsigned i = 0; i < shards_in_use() && !s->postponed; i++) sweep(shards[i], s);
}

void note_ripe(Shard& shard, Region* region, unsigned first) {
  DCHECK(shard.lock.is_held());
  DCHECK(!region->resting && !region->used.test(first));
  if (region->ripe || region->dirty().set_run_around(first) < kWorthACall_pages) return;
  region->ripe = true;
  region->next_ripe = shard.ripe;
  shard.ripe = region;
  anything_ripe.store(true, std::memory_order_relaxed);
}

size_t sweep_ripe() {
  if (!anything_ripe.load(std::memory_order_relaxed) ||
      !anything_ripe.exchange(false, std::memory_order_relaxed))
    return 0;
  Sweeping s{What::kDirty, kWorthACall_pages};
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Batch batch;
    for (;;) {
      {
        LockGuard guard(shards[i].lock);
        if (!detach_ripe_locked(shards[i], &s, &batch)) break;
      }
      give_back(shards[i], batch, &s);
    }
  }
  return s.given_bytes;
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
    shard.refile(region);
  }
}

}  // namespace seemalloc::pages
