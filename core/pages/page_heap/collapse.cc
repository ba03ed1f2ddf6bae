#include "core/pages/page_heap/collapse.h"

#include <errno.h>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/huge_page_setting.h"
#include "core/os/process/page_residence.h"
#include "core/pages/page_heap/sweep.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/backing.h"
#include "core/pages/span/region_count.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

// Smaller heaps keep small pages, just as they do when they grow.
constexpr unsigned kLeastRegions = 32;
constexpr unsigned kMostAtATime = 8;
// A region that took this long ends its round: the kernel had to make room, which counts as a stall
// of the process (PSI).
constexpr uint64_t kSlow_ns = 3 * kMillisecond_ns;
// Regions of a shard that one round checks.
constexpr unsigned kLooks = 256;
// At most this many pages may be freed while a region is watched.
constexpr unsigned kCalm_pages = kPagesPerRegion - kDense_pages;
constexpr size_t kDense_bytes = kDense_pages * kPageBytes;
constexpr unsigned kMostDoublings = 8;

// Used by the helper thread only, one call at a time.
constinit CollapsePacing pacing;
constinit os::HugePageSetting setting;
constinit os::PageResidence residence;

void* memory_of(const Region* region) { return reinterpret_cast<void*>(region->base); }

void watch_anew(Region* region, uint64_t now_ns) {
  region->dense_since_ns = now_ns;
  region->freed_pages = 0;
}

// Whether the region has been dense and calm for long enough.
bool is_ready(Region* region, uint64_t now_ns) {
  bool has_small_pages = !region->huge && !region->expecting && !region->collapsing;
  if (!has_small_pages || region->used.count() < kDense_pages || !region->purging.empty()) {
    region->dense_since_ns = 0;
    return false;
  }
  if (region->dense_since_ns == 0 || region->freed_pages > kCalm_pages) watch_anew(region, now_ns);
  unsigned doublings = region->attempts < kMostDoublings ? region->attempts : kMostDoublings;
  return now_ns - region->dense_since_ns >= kDenseFor_ns << doublings;
}

// Pages that have no memory of their own as far as we know, including those left to the kernel
// (MADV_FREE).
PageBits pages_without_memory(const Region* region) {
  PageBits pages;
  pages.set(0, kPagesPerRegion);
  pages -= region->used;
  pages -= region->dirty();
  return pages;
}

// Returns false when heap_limit is reached.
bool begin_locked(Region* region, uint64_t now_ns) {
  DCHECK(shards[region->shard].lock.is_held());
  DCHECK(!region->collapsing && !region->expecting && !region->huge);
  DCHECK(region->purging.empty());
  unsigned pages = pages_without_memory(region).count();
  // has_room() comes first so that this does not count as a refusal.
  if (!backing.has_room(pages * kPageBytes) || !backing.charge(pages * kPageBytes)) return false;
  region->charged_pages = static_cast<uint16_t>(pages);
  region->collapsing = true;
  region->parted = false;
  if (region->attempts < kMostDoublings) region->attempts++;
  watch_anew(region, now_ns);
  return true;
}

// Pages that had no memory and got it from the huge page are entered as freshly freed.
void enter_brought_locked(Shard& shard, Region* region) {
  DCHECK(!region->huge && !region->resting);
  PageBits brought = pages_without_memory(region);
  region->huge = !region->parted;
  region->young |= brought;
  region->lazy = PageBits();
  shard.dirty_pages += brought.count();
  backing.add(brought.count() * kPageBytes);
  if (!brought.empty()) shard.put_on_dirty_list(region);
}

void end_locked(Shard& shard, Region* region, bool done) {
  DCHECK(shard.lock.is_held());
  DCHECK(region->collapsing && !region->expecting);
  region->collapsing = false;
  if (done) enter_brought_locked(shard, region);
  backing.give_back(region->charged_pages * kPageBytes);
}

// Iterates over the shards' regions. Each round continues where the last one ended.
class Search {
 public:
  explicit Search(uint64_t now_ns) : now_ns_(now_ns) {}

  // Returns the next region to move, with its move begun. Null when there is none, or when enough
  // regions have been checked.
  Region* next() {
    for (; shard_ < shards_in_use(); shard_++, looks_ = kLooks) {
      while (looks_ != 0) {
        if (Region* region = look_at_some()) return region;
      }
    }
    return nullptr;
  }

 private:
  Region* look_at_some() {
    Shard& shard = shards[shard_];
    LockGuard guard(shard.lock);
    if (shard.next_look == nullptr) shard.next_look = shard.all;
    for (unsigned i = 0; i < kLooksPerLock && looks_ != 0 && shard.next_look != nullptr;
         i++, looks_--) {
      Region* region = shard.next_look;
      shard.next_look = region->next_all;
      if (is_ready(region, now_ns_) && begin_locked(region, now_ns_)) return region;
    }
    if (shard.next_look == nullptr) looks_ = 0;  // one full pass
    return nullptr;
  }

  uint64_t now_ns_;
  unsigned shard_ = 0;
  unsigned looks_ = kLooks;  // left in this shard
};

// Sets and clears the huge page advice as heap growth does: mappings stay merged, and the kernel's
// own collapsing
// (khugepaged) finds nothing.
int collapse(const Region* region) {
  if (!os::set_huge_pages(memory_of(region), kRegionBytes, true)) return -ENOMEM;
  int result = os::collapse_into_huge_pages(memory_of(region), kRegionBytes);
  os::set_huge_pages(memory_of(region), kRegionBytes, false);
  return result;
}

// Returns false when the kernel refused, so other regions would be refused too.
bool try_region(Region* region, uint64_t now_ns) {
  bool worth_it = residence.own_bytes(memory_of(region), kRegionBytes) >= kDense_bytes;
  int result = worth_it ? collapse(region) : 0;
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    // In the child of a fork made by a signal handler that interrupted this function, the flag is
    // already cleared.
    if (region->collapsing) end_locked(shard, region, worth_it && result == 0);
  }
  if (!worth_it) return true;
  result == 0 ? pacing.done() : pacing.refused(-result, region->base, now_ns);
  return result == 0;
}

bool wanted() {
  if (options::get(options::Id::huge_pages) == 0 || region_count() < kLeastRegions) return false;
  // Not for an idle process, which would gain nothing; nor where memory matters more, or work
  // behind the program's back is unwanted.
  if (purge_budget.idle() || purge_mode() != options::Purge::kBalanced) return false;
  if (memory_is_short.load(std::memory_order_relaxed)) return false;
  size_t limit = least_limit.load(std::memory_order_relaxed);
  return limit == SIZE_MAX || backing.total_bytes() <= limit / 10 * 7;
}

// Under a limit, one region at a time: each may add a twentieth of a region, and the cgroup's
// figures lag behind.
unsigned most_in_a_round() {
  return least_limit.load(std::memory_order_relaxed) == SIZE_MAX ? kMostAtATime : 1;
}

}  // namespace

void CollapsePacing::refused(int error, uintptr_t region, uint64_t now_ns) {
  // A kernel without MADV_COLLAPSE fails for every region. Once a collapse has succeeded, the fault
  // is in this region.
  if (error == EINVAL && !known_ && !unknown_) {
    bool seen = false;
    for (unsigned i = 0; i < invalid_; i++) seen |= invalid_regions_[i] == region;
    if (!seen) invalid_regions_[invalid_++] = region;
    unknown_ = invalid_ == kInvalidRegions;
  }
  next_ns_ = now_ns + wait_ns_;
  wait_ns_ = wait_ns_ * 2 < kLongestWait_ns ? wait_ns_ * 2 : kLongestWait_ns;
}

void collapse_dense_regions(uint64_t now_ns) {
  if (!pacing.due(now_ns) || !wanted()) return;
  pacing.begin_round(now_ns);
  if (!setting.allows()) return pacing.forbidden(now_ns);
  Search search(now_ns);
  for (unsigned most = most_in_a_round(), i = 0; i < most && purge_budget.may_spend(); i++) {
    uint64_t begin = os::thread_cpu_ns();
    Region* region = search.next();
    if (region == nullptr) return;
    bool go_on = try_region(region, now_ns);
    uint64_t took = os::thread_cpu_ns() - begin;
    purge_budget.spent(took);
    if (!go_on || took >= kSlow_ns) return;
  }
}

void end_collapsing_all_locked(Shard& shard) {
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (!region->collapsing) continue;
    os::set_huge_pages(memory_of(region), kRegionBytes, false);
    bool done =
        os::resident_bytes(memory_of(region), kRegionBytes, os::Reason::kHugePages) == kRegionBytes;
    end_locked(shard, region, done);
  }
}

void forget_collapse_in_child() {
  setting.close();
  residence.close();
}

}  // namespace seemalloc::pages
