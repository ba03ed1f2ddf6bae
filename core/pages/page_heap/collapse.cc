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
#include "core/pages/span/memory_account.h"
#include "core/pages/span/region_count.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

// Smaller heaps keep small pages, just as they do when they grow.
constexpr unsigned kMinRegions = 32;
constexpr unsigned kMaxRegionsPerRound = 8;
// A region that took this long ends its round: the kernel had to make room, which counts as a stall
// of the process (PSI).
constexpr uint64_t kSlowNs = 3 * kMillisecondNs;
// Regions of a shard that one round checks.
constexpr unsigned kMaxChecksPerShard = 256;
// At most this many pages may be freed while a region is watched.
constexpr unsigned kMaxFreedWhileWatchedPages = kPagesPerRegion - kDensePages;
constexpr size_t kDenseBytes = kDensePages * kPageBytes;
constexpr unsigned kMaxDoublings = 8;

// Used by the helper thread only, one call at a time.
constinit CollapsePacing pacing;
constinit os::HugePageSetting setting;
constinit os::PageResidence residence;

void* memory_of(const Region* region) { return reinterpret_cast<void*>(region->base); }

void restart_watch(Region* region, uint64_t now_ns) {
  region->dense_since_ns = now_ns;
  region->freed_since_dense_pages = 0;
}

// Whether the region has been dense and calm for long enough.
bool is_collapse_candidate(Region* region, uint64_t now_ns) {
  bool has_small_pages =
      !region->on_huge_page && !region->expecting_huge_page && !region->collapsing;
  if (!has_small_pages || region->used.count() < kDensePages || !region->purging.empty()) {
    region->dense_since_ns = 0;
    return false;
  }
  if (region->dense_since_ns == 0 || region->freed_since_dense_pages > kMaxFreedWhileWatchedPages)
    restart_watch(region, now_ns);
  unsigned doublings =
      region->collapse_attempts < kMaxDoublings ? region->collapse_attempts : kMaxDoublings;
  return now_ns - region->dense_since_ns >= kDenseForNs << doublings;
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
bool begin_collapse_locked(Region* region, uint64_t now_ns) {
  DCHECK(shards[region->shard].lock.is_held());
  DCHECK(!region->collapsing && !region->expecting_huge_page && !region->on_huge_page);
  DCHECK(region->purging.empty());
  unsigned pages = pages_without_memory(region).count();
  // has_room() comes first so that this does not count as a refusal.
  if (!memory_account.has_room(pages * kPageBytes) || !memory_account.charge(pages * kPageBytes))
    return false;
  region->collapse_charged_pages = static_cast<uint16_t>(pages);
  region->collapsing = true;
  region->split_while_collapsing = false;
  if (region->collapse_attempts < kMaxDoublings) region->collapse_attempts++;
  restart_watch(region, now_ns);
  return true;
}

// Pages that had no memory and got it from the huge page are entered as freshly freed.
void add_new_dirty_pages_locked(Shard& shard, Region* region) {
  DCHECK(!region->on_huge_page && !region->resting);
  PageBits brought = pages_without_memory(region);
  region->on_huge_page = !region->split_while_collapsing;
  region->young |= brought;
  region->lazy = PageBits();
  shard.dirty_pages += brought.count();
  memory_account.add(brought.count() * kPageBytes);
  if (!brought.empty()) shard.put_on_dirty_list(region);
}

void end_collapse_locked(Shard& shard, Region* region, bool done) {
  DCHECK(shard.lock.is_held());
  DCHECK(region->collapsing && !region->expecting_huge_page);
  region->collapsing = false;
  if (done) add_new_dirty_pages_locked(shard, region);
  memory_account.uncharge(region->collapse_charged_pages * kPageBytes);
}

// Iterates over the shards' regions. Each round continues where the last one ended.
class CandidateSearch {
 public:
  explicit CandidateSearch(uint64_t now_ns) : now_ns_(now_ns) {}

  // Returns the next region to move, with its move begun. Null when there is none, or when enough
  // regions have been checked.
  Region* next() {
    for (; shard_ < shards_in_use(); shard_++, checks_left_ = kMaxChecksPerShard) {
      while (checks_left_ != 0) {
        if (Region* region = check_some()) return region;
      }
    }
    return nullptr;
  }

 private:
  Region* check_some() {
    Shard& shard = shards[shard_];
    LockGuard guard(shard.lock);
    if (shard.next_collapse_check == nullptr) shard.next_collapse_check = shard.all;
    for (unsigned i = 0;
         i < kChecksPerLock && checks_left_ != 0 && shard.next_collapse_check != nullptr;
         i++, checks_left_--) {
      Region* region = shard.next_collapse_check;
      shard.next_collapse_check = region->next_all;
      if (is_collapse_candidate(region, now_ns_) && begin_collapse_locked(region, now_ns_))
        return region;
    }
    if (shard.next_collapse_check == nullptr) checks_left_ = 0;  // one full pass
    return nullptr;
  }

  uint64_t now_ns_;
  unsigned shard_ = 0;
  unsigned checks_left_ = kMaxChecksPerShard;  // left in this shard
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
bool try_collapse(Region* region, uint64_t now_ns) {
  bool worth_it = residence.exclusive_bytes(memory_of(region), kRegionBytes) >= kDenseBytes;
  int result = worth_it ? collapse(region) : 0;
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    // In the child of a fork made by a signal handler that interrupted this function, the flag is
    // already cleared.
    if (region->collapsing) end_collapse_locked(shard, region, worth_it && result == 0);
  }
  if (!worth_it) return true;
  result == 0 ? pacing.note_success() : pacing.refused(-result, region->base, now_ns);
  return result == 0;
}

bool collapse_is_useful() {
  if (options::get(options::Id::huge_pages) == 0 || region_count() < kMinRegions) return false;
  // Not for an idle process, which would gain nothing; nor where memory matters more, or work
  // behind the program's back is unwanted.
  if (purge_budget.idle() || purge_mode() != options::Purge::kBalanced) return false;
  if (under_memory_pressure.load(std::memory_order_relaxed)) return false;
  size_t limit = smallest_limit.load(std::memory_order_relaxed);
  return limit == SIZE_MAX || memory_account.total_bytes() <= limit / 10 * 7;
}

// Under a limit, one region at a time: each may add a twentieth of a region, and the cgroup's
// figures lag behind.
unsigned max_regions_per_round() {
  return smallest_limit.load(std::memory_order_relaxed) == SIZE_MAX ? kMaxRegionsPerRound : 1;
}

}  // namespace

void CollapsePacing::refused(int error, uintptr_t region, uint64_t now_ns) {
  // A kernel without MADV_COLLAPSE fails for every region. Once a collapse has succeeded, the fault
  // is in this region.
  if (error == EINVAL && !supported_ && !unsupported_) {
    bool seen = false;
    for (unsigned i = 0; i < invalid_count_; i++) seen |= invalid_regions_[i] == region;
    if (!seen) invalid_regions_[invalid_count_++] = region;
    unsupported_ = invalid_count_ == kInvalidRegions;
  }
  next_ns_ = now_ns + wait_ns_;
  wait_ns_ = wait_ns_ * 2 < kMaxWaitNs ? wait_ns_ * 2 : kMaxWaitNs;
}

// The file of `residence` stays open while rounds find regions to move.
void collapse_dense_regions(uint64_t now_ns) {
  if (!pacing.due(now_ns)) return;
  if (!collapse_is_useful()) return residence.close();
  pacing.begin_round(now_ns);
  if (!setting.allows(now_ns)) {
    residence.close();
    return pacing.disabled_by_system(now_ns);
  }
  CandidateSearch search(now_ns);
  for (unsigned most = max_regions_per_round(), i = 0; i < most && purge_budget.may_spend(); i++) {
    uint64_t begin = os::thread_cpu_ns();
    Region* region = search.next();
    if (region == nullptr) {
      if (i == 0) residence.close();
      return;
    }
    bool go_on = try_collapse(region, now_ns);
    uint64_t took = os::thread_cpu_ns() - begin;
    purge_budget.spent(took);
    if (!go_on || took >= kSlowNs) return;
  }
}

void end_collapses_in_child_locked(Shard& shard) {
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (!region->collapsing) continue;
    os::set_huge_pages(memory_of(region), kRegionBytes, false);
    bool done =
        os::resident_bytes(memory_of(region), kRegionBytes, os::Reason::kHugePages) == kRegionBytes;
    end_collapse_locked(shard, region, done);
  }
}

void close_collapse_file_in_child() { residence.close(); }

}  // namespace seemalloc::pages
