#include "core/pages/page_heap.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/arena.h"
#include "core/os/lock.h"
#include "core/os/os.h"
#include "core/pages/huge.h"
#include "core/pages/huge_page_pacing.h"
#include "core/pages/page_map.h"
#include "core/pages/reserve.h"
#include "core/pages/region.h"
#include "core/pages/span_pool.h"

namespace seemalloc::pages {

constinit HugePagePacing huge_page_pacing;

namespace {

struct alignas(kCacheLineBytes) Shard {
  Lock lock;
  Region* buckets[kPagesPerRegion + 1];          // by longest free run
  uint64_t filled[kPagesPerRegion / 64 + 1];     // which buckets have a region
  Region* all;
  Region* dirty;  // regions with free dirty pages
};

constinit Shard shards[kMaxShards];
std::atomic<unsigned> shard_count{0};
std::atomic<unsigned> shard_cursor{0};
std::atomic<uint64_t> next_tick_ns{0};
std::atomic<unsigned> regions{0};

// Huge pages: memory that they brought and nobody has asked for yet stays below 1/kSpareShare of what regions have.
constexpr size_t kSpareShare = 32;
std::atomic<size_t> spare_pages{0};

Lock region_pool_lock;
os::Pool<Region> region_pool;

Region* take_region() {
  LockGuard guard(region_pool_lock);
  return region_pool.take();
}

// ---- filing of regions ----

void file(Shard& shard, Region* region) {
  unsigned longest = region->longest_free;
  region->prev = nullptr;
  region->next = shard.buckets[longest];
  if (region->next != nullptr) region->next->prev = region;
  shard.buckets[longest] = region;
  shard.filled[longest / 64] |= uint64_t{1} << (longest % 64);
}

void unfile(Shard& shard, Region* region) {
  unsigned longest = region->longest_free;
  (region->prev != nullptr ? region->prev->next : shard.buckets[longest]) = region->next;
  if (region->next != nullptr) region->next->prev = region->prev;
  if (shard.buckets[longest] == nullptr) shard.filled[longest / 64] &= ~(uint64_t{1} << (longest % 64));
}

void refile(Shard& shard, Region* region, unsigned longest) {
  if (longest == region->longest_free) return;
  unfile(shard, region);
  region->longest_free = static_cast<uint16_t>(longest);
  file(shard, region);
}

void refile(Shard& shard, Region* region) { refile(shard, region, region->used.longest_clear_run()); }

// The tightest bucket at or above `pages` that has a region; kPagesPerRegion + 1 when none.
unsigned tightest(const Shard& shard, unsigned pages) {
  for (unsigned word = pages / 64; word < sizeof(shard.filled) / sizeof(shard.filled[0]); word++) {
    uint64_t bits = shard.filled[word];
    if (word == pages / 64) bits &= ~uint64_t{0} << (pages % 64);
    if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
  }
  return kPagesPerRegion + 1;
}

Region* add_region_locked(Shard& shard) {
  uintptr_t base = reserve_region();
  if (base == 0) return nullptr;
  Region* region = page_map.reserve(base, kRegionBytes) ? take_region() : nullptr;
  if (region == nullptr) {
    return_region(base);
    return nullptr;
  }
  *region = Region{};
  region->base = base;
  region->shard = static_cast<uint16_t>(&shard - shards);
  region->longest_free = kPagesPerRegion;
  page_map.set_free(base, kRegionBytes);
  region->next_all = shard.all;
  shard.all = region;
  file(shard, region);
  regions.fetch_add(1, std::memory_order_relaxed);
  return region;
}

struct Run {
  Region* region;
  unsigned first;
  unsigned pages;
  unsigned longest_left;  // of the region's free runs, once this one is taken
  bool clean;             // all of it reads as zero
  bool takes_huge_page;   // its first touch does, for the whole region
};

// Finds a run; false when the shard's regions have none. What has been paid for by a huge page is for dense spans.
bool find_run_locked(Shard& shard, unsigned alignment, bool dense, Run* run) {
  for (unsigned bucket = tightest(shard, run->pages); bucket <= kPagesPerRegion; bucket = tightest(shard, bucket + 1)) {
    for (Region* candidate = shard.buckets[bucket]; candidate != nullptr; candidate = candidate->next) {
      if (!dense && !candidate->spare.empty()) continue;
      PageBits::Fit fit = candidate->used.find_clear(run->pages, alignment);
      if (fit.first == kPagesPerRegion) continue;  // only when aligned
      run->region = candidate;
      run->first = fit.first;
      run->longest_left = fit.longest;
      return true;
    }
  }
  return false;
}

// These pages, if they are spare, are not any more.
void forget_spare(Region* region, unsigned first, unsigned pages) {
  if (!region->spare.any(first, pages)) return;
  unsigned before = region->spare.count();
  region->spare.clear(first, pages);
  spare_pages.fetch_sub(before - region->spare.count(), std::memory_order_relaxed);
}

bool is_dirty(const Region* region, unsigned first, unsigned pages) {
  return region->young.any(first, pages) || region->old.any(first, pages);
}

// Requires: some of the pages are dirty. They are known zero where a huge page brought them and nobody has had them.
bool reads_as_zero(const Region* region, unsigned first, unsigned pages) {
  PageBits written = region->young;
  written |= region->old;
  written -= region->spare;
  return !written.any(first, pages);
}

// ---- refaults ----

struct alignas(kCacheLineBytes) RefaultCounters {
  std::atomic<uint64_t> runs, bytes;
};
constinit RefaultCounters refault_counters;

void note_given_back(Region* region, unsigned first, unsigned pages) {
  if (pages == 0) return;
  region->given_back.set(first, pages);
  region->given_back_ns = os::coarse_monotonic_ns();
}

SEEMALLOC_NOINLINE void count_refault(Region* region, unsigned first, unsigned pages) {
  constexpr uint64_t kLeast_ns = kSecond_ns / 2;
  unsigned before = region->given_back.count();
  region->given_back.clear(first, pages);
  uint64_t window_ns = 2 * options::get(options::Id::purge_delay) * kMillisecond_ns;
  if (window_ns < kLeast_ns) window_ns = kLeast_ns;
  if (os::coarse_monotonic_ns() - region->given_back_ns > window_ns) return;
  refault_counters.runs.fetch_add(1, std::memory_order_relaxed);
  refault_counters.bytes.fetch_add((before - region->given_back.count()) * kPageBytes, std::memory_order_relaxed);
}

// Marks pages as used and clean in the books. Returns true when all of them read as zero. The caller refiles the region.
bool claim_pages(Region* region, unsigned first, unsigned pages) {
  region->used.set(first, pages);
  if (region->given_back.any(first, pages)) count_refault(region, first, pages);
  if (!is_dirty(region, first, pages)) return true;
  bool clean = reads_as_zero(region, first, pages);
  region->young.clear(first, pages);
  region->old.clear(first, pages);
  forget_spare(region, first, pages);
  return clean;
}

void put_on_dirty_list(Shard& shard, Region* region) {
  if (region->on_dirty_list) return;
  region->on_dirty_list = true;
  region->next_dirty = shard.dirty;
  shard.dirty = region;
}

void free_pages(Shard& shard, Region* region, unsigned first, unsigned pages) {
  region->used.clear(first, pages);
  region->young.set(first, pages);
  put_on_dirty_list(shard, region);
  unsigned run = region->used.clear_run_around(first);
  if (run > region->longest_free) refile(shard, region, run);
}

unsigned shards_in_use() {
  unsigned count = shard_count.load(std::memory_order_relaxed);
  if (count == 0) {
    count = os::cpu_count();
    if (count > kMaxShards) count = kMaxShards;
    shard_count.store(count, std::memory_order_relaxed);
  }
  return count;
}

// ---- huge pages ----

bool huge_pages_on() { return options::get(options::Id::huge_pages) != 0; }

// Has the next fault in a region without memory take a huge page, if it is time for one. Nothing of it is handed out yet: a
// single small page would be in the way.
bool expect_huge_page_locked(Region* region) {
  if (region->longest_free != kPagesPerRegion || !region->young.empty() || !region->old.empty()) return false;
  size_t spare_after = spare_pages.load(std::memory_order_relaxed) + kPagesPerRegion;
  if (spare_after * kSpareShare > size_t{region_count()} * kPagesPerRegion) return false;
  if (!huge_pages_on() || !huge_page_pacing.due()) return false;
  if (!os::set_huge_pages(reinterpret_cast<void*>(region->base), kRegionBytes, true)) {
    huge_page_pacing.refused(0);
    return false;
  }
  spare_pages.fetch_add(kPagesPerRegion, std::memory_order_relaxed);
  region->expecting = true;
  return true;
}

void claim_run_locked(Shard& shard, bool dense, Run* run) {
  run->takes_huge_page = dense && expect_huge_page_locked(run->region);
  run->clean = claim_pages(run->region, run->first, run->pages);
  refile(shard, run->region, run->longest_left);
}

// The rest of the huge page is free memory like any other: it is purged if nobody asks for it.
void enter_spare_locked(Shard& shard, Region* region) {
  region->huge = true;
  region->spare.set(0, kPagesPerRegion);
  region->spare -= region->used;
  region->spare -= region->young;
  region->spare -= region->old;
  region->young |= region->spare;
  spare_pages.fetch_add(region->spare.count(), std::memory_order_relaxed);
  put_on_dirty_list(shard, region);
}

void end_expecting_locked(Shard& shard, Region* region, bool came) {
  region->expecting = false;
  if (came) enter_spare_locked(shard, region);
  spare_pages.fetch_sub(kPagesPerRegion, std::memory_order_relaxed);
}

// What is purged must not come back by the kernel's own collecting of small pages; and mappings merge.
bool huge_page_came(const Region* region) {
  os::set_huge_pages(reinterpret_cast<void*>(region->base), kRegionBytes, false);
  uintptr_t last_page = region->base + kRegionBytes - os::page_bytes();
  return os::resident_bytes(reinterpret_cast<void*>(last_page), os::page_bytes(), os::Reason::kHugePages) != 0;
}

// Touches the run, which is ours, and measures what the kernel takes for it.
void fault_huge_page(const Run& run) {
  Region* region = run.region;
  uint64_t begin = os::thread_cpu_ns();
  *reinterpret_cast<volatile char*>(region->address_of(run.first)) = 0;
  uint64_t took = os::thread_cpu_ns() - begin;
  bool came = huge_page_came(region);
  came ? huge_page_pacing.delivered(took) : huge_page_pacing.refused(took);
  Shard& shard = shards[region->shard];
  LockGuard guard(shard.lock);
  end_expecting_locked(shard, region, came);
}

// ---- runs ----

bool take_run_from_new_region(Shard& shard, bool dense, Run* run) {
  LockGuard guard(shard.lock);
  run->region = add_region_locked(shard);
  if (run->region == nullptr) return false;
  // Where the system gives huge pages to everybody, a small heap would take 2 MiB at its first touch. Also if one is
  // expected: what has been one mapping with its neighbours becomes one again.
  if (huge_pages_on()) os::set_huge_pages(reinterpret_cast<void*>(run->region->base), kRegionBytes, false);
  run->first = 0;
  run->longest_left = kPagesPerRegion - run->pages;
  claim_run_locked(shard, dense, run);
  return true;
}

// Takes the run from this shard, else from another, else from a new region.
bool take_run(unsigned shard_index, unsigned alignment, bool dense, Run* run) {
  unsigned count = shards_in_use();
  for (unsigned i = 0; i < count; i++) {
    Shard& shard = shards[(shard_index + i) % count];
    LockGuard guard(shard.lock);
    if (!find_run_locked(shard, alignment, dense, run)) continue;
    claim_run_locked(shard, dense, run);
    return true;
  }
  return take_run_from_new_region(shards[shard_index % count], dense, run);
}

// ---- purge ----

struct Range {
  Region* region;
  uint16_t first;
  uint16_t pages;
  bool splits_huge_page;
};
constexpr unsigned kBatch = 64;

// Detaches runs of dirty pages (as if used) so that the system calls need no lock. `everything` takes young ones too.
unsigned detach_dirty_locked(Shard& shard, bool everything, Range* ranges) {
  unsigned count = 0;
  Region** link = &shard.dirty;
  while (*link != nullptr && count < kBatch) {
    Region* region = *link;
    PageBits dirty = region->old;
    if (everything) dirty |= region->young;
    unsigned first = 0, length = 0;
    bool filed = true;
    for (unsigned from = 0; dirty.next_run(true, from, &first, &length); from = first + length) {
      if (count == kBatch) {
        filed = false;
        break;
      }
      bool splits = region->huge && length != kPagesPerRegion;
      region->huge = false;
      ranges[count++] = Range{region, static_cast<uint16_t>(first), static_cast<uint16_t>(length), splits};
      region->used.set(first, length);
      region->purging.set(first, length);
      region->old.clear(first, length);
      if (everything) region->young.clear(first, length);
      forget_spare(region, first, length);
    }
    refile(shard, region);
    if (!filed) break;
    if (region->young.empty() && region->old.empty()) {
      region->on_dirty_list = false;
      *link = region->next_dirty;
    } else {
      link = &region->next_dirty;
    }
  }
  return count;
}

// Gives the whole OS pages of one range back; *clean is what has gone, empty when refused.
void purge_range(const Range& range, os::Reason reason, Range* clean) {
  uintptr_t start = round_up(range.region->address_of(range.first), os::page_bytes());
  uintptr_t end = round_down(range.region->address_of(range.first + range.pages), os::page_bytes());
  *clean = Range{range.region, range.first, 0, false};
  if (start < end && range.splits_huge_page) os::split_huge_page(reinterpret_cast<void*>(start), end - start);
  if (start >= end || !os::purge(reinterpret_cast<void*>(start), end - start, reason)) return;
  clean->first = static_cast<uint16_t>(range.region->page_of(start));
  clean->pages = static_cast<uint16_t>((end - start) >> kPageShift);
}

// The pages are free again: what was not purged is dirty as before.
void reattach_locked(Shard& shard, const Range& range, const Range& clean) {
  Region* region = range.region;
  region->used.clear(range.first, range.pages);
  region->purging.clear(range.first, range.pages);
  note_given_back(region, clean.first, clean.pages);
  if (clean.pages != range.pages) {
    region->young.set(range.first, range.pages);
    region->young.clear(clean.first, clean.pages);
    put_on_dirty_list(shard, region);
  }
  refile(shard, region);
}

size_t purge_shard(Shard& shard, bool everything, os::Reason reason) {
  size_t purged_bytes = 0;
  Range ranges[kBatch];
  for (;;) {
    unsigned count;
    {
      LockGuard guard(shard.lock);
      count = detach_dirty_locked(shard, everything, ranges);
    }
    if (count == 0) return purged_bytes;
    Range clean[kBatch];
    bool stayed_dirty = false;
    for (unsigned i = 0; i < count; i++) {
      purge_range(ranges[i], reason, &clean[i]);
      purged_bytes += clean[i].pages * kPageBytes;
      stayed_dirty |= clean[i].pages != ranges[i].pages;
    }
    LockGuard guard(shard.lock);
    for (unsigned i = 0; i < count; i++) reattach_locked(shard, ranges[i], clean[i]);
    // What was refused waits for the next period; trying again at once would never end.
    if (stayed_dirty && everything) return purged_bytes;
  }
}

// Starts a new purge period: what stayed free through the last one is old now.
void age_shard(Shard& shard) {
  LockGuard guard(shard.lock);
  for (Region* region = shard.dirty; region != nullptr; region = region->next_dirty) {
    region->old |= region->young;
    region->young = PageBits();
  }
}

uint64_t purge_delay_ns() { return options::get(options::Id::purge_delay) * kMillisecond_ns; }

}  // namespace

unsigned region_count() { return regions.load(std::memory_order_relaxed); }

bool anything_dirty() {
  for (unsigned i = 0; i < shards_in_use(); i++) {
    LockGuard guard(shards[i].lock);
    if (shards[i].dirty != nullptr) return true;
  }
  return anything_cached_huge();
}

unsigned next_shard() { return shard_cursor.fetch_add(1, std::memory_order_relaxed) % shards_in_use(); }

Span* allocate_run(unsigned shard_index, size_t page_count, size_t alignment_pages, SpanKind kind, bool dense) {
  Span* span = take_span(kind);
  if (span == nullptr) return nullptr;
  Run run{};
  run.pages = static_cast<unsigned>(page_count);
  if (!take_run(shard_index, static_cast<unsigned>(alignment_pages), dense, &run)) {
    give_span(span);
    return nullptr;
  }
  if (run.takes_huge_page) fault_huge_page(run);
  span->region = run.region;
  span->start = run.region->address_of(run.first);
  span->bytes = page_count * kPageBytes;
  span->known_zero = run.clean;
  return span;
}

void publish(Span* span) { page_map.set(span->start, span->bytes, span); }

void release(Span* span) {
  Region* region = span->region;
  page_map.set_free(span->start, span->bytes);
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    free_pages(shard, region, region->page_of(span->start), static_cast<unsigned>(span->bytes >> kPageShift));
  }
  give_span(span);
}

bool try_extend(Span* span, size_t page_count) {
  Region* region = span->region;
  size_t have = span->bytes >> kPageShift;
  unsigned first = region->page_of(span->start);
  unsigned more = static_cast<unsigned>(page_count - have);
  if (first + page_count > kPagesPerRegion) return false;
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    if (region->used.any(first + static_cast<unsigned>(have), more)) return false;
    claim_pages(region, first + static_cast<unsigned>(have), more);
    refile(shard, region);
  }
  page_map.set(span->start + span->bytes, size_t{more} * kPageBytes, span);
  span->bytes = page_count * kPageBytes;
  return true;
}

void shrink(Span* span, size_t page_count) {
  Region* region = span->region;
  size_t have = span->bytes >> kPageShift;
  if (page_count >= have) return;
  page_map.set_free(span->start + page_count * kPageBytes, (have - page_count) * kPageBytes);
  span->bytes = page_count * kPageBytes;
  Shard& shard = shards[region->shard];
  LockGuard guard(shard.lock);
  free_pages(shard, region, region->page_of(span->start) + static_cast<unsigned>(page_count),
             static_cast<unsigned>(have - page_count));
}

void tick() {
  if (options::get(options::Id::purge) == 0) return;
  uint64_t delay = purge_delay_ns();
  if (delay == 0) {
    purge_all(os::Reason::kDecay);
    return;
  }
  // Two periods per delay: a page is purged between half a delay and one delay after it was freed.
  uint64_t now = os::coarse_monotonic_ns();
  uint64_t due = next_tick_ns.load(std::memory_order_relaxed);
  if (now < due || !next_tick_ns.compare_exchange_strong(due, now + delay / 2, std::memory_order_relaxed)) return;
  for (unsigned i = 0; i < shards_in_use(); i++) {
    purge_shard(shards[i], false, os::Reason::kDecay);
    age_shard(shards[i]);
  }
  purge_huge(now > delay ? now - delay : 0, os::Reason::kDecay);
}

size_t purge_all(os::Reason reason) {
  size_t purged_bytes = 0;
  for (unsigned i = 0; i < shards_in_use(); i++) purged_bytes += purge_shard(shards[i], true, reason);
  return purged_bytes + purge_huge(UINT64_MAX, reason);
}

namespace {

// Takes one region without spans out of the books; null when there is none.
Region* detach_empty_locked(Shard& shard) {
  Region* region = shard.buckets[kPagesPerRegion];
  if (region == nullptr) return nullptr;
  unfile(shard, region);
  forget_spare(region, 0, kPagesPerRegion);
  Region** link = &shard.all;
  while (*link != region) link = &(*link)->next_all;
  *link = region->next_all;
  if (region->on_dirty_list) {
    link = &shard.dirty;
    while (*link != region) link = &(*link)->next_dirty;
    *link = region->next_dirty;
  }
  return region;
}

}  // namespace

size_t unmap_empty_regions() {
  size_t bytes = 0;
  for (unsigned i = 0; i < shards_in_use(); i++) {
    for (;;) {
      Region* region;
      {
        LockGuard guard(shards[i].lock);
        region = detach_empty_locked(shards[i]);
      }
      if (region == nullptr) break;
      regions.fetch_sub(1, std::memory_order_relaxed);
      unmap_region(region->base);
      bytes += kRegionBytes;
      LockGuard guard(region_pool_lock);
      region_pool.give(region);
    }
  }
  return bytes + unmap_reserve();
}

Refaults refaults() {
  return {refault_counters.runs.load(std::memory_order_relaxed), refault_counters.bytes.load(std::memory_order_relaxed)};
}

PageStatistics page_statistics(bool with_residency) {
  PageStatistics statistics{};
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Shard& shard = shards[i];
    LockGuard guard(shard.lock);
    for (Region* region = shard.all; region != nullptr; region = region->next_all) {
      PageBits dirty = region->old;
      dirty |= region->young;
      statistics.regions++;
      statistics.mapped_bytes += kRegionBytes;
      statistics.used_bytes += region->used.count() * kPageBytes;
      statistics.huge_pages += region->huge ? 1 : 0;
      statistics.dirty_bytes += dirty.count() * kPageBytes;
      if (with_residency) statistics.resident_bytes += os::resident_bytes(reinterpret_cast<void*>(region->base), kRegionBytes);
    }
  }
  return statistics;
}

void for_each_span(void (*f)(void* context, Span* span), void* context) {
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Shard& shard = shards[i];
    LockGuard guard(shard.lock);
    for (Region* region = shard.all; region != nullptr; region = region->next_all) {
      for (unsigned page = 0; page < kPagesPerRegion;) {
        Span* span = page_map.span_of(reinterpret_cast<void*>(region->address_of(page)));
        // A run being handed out or purged is marked used but not (or no longer) in the map.
        bool is_span = span->kind != SpanKind::kFree && span->start == region->address_of(page);
        if (is_span) f(context, span);
        page += is_span ? static_cast<unsigned>(span->bytes >> kPageShift) : 1;
      }
    }
  }
}

void lock_for_fork() {
  for (Shard& shard : shards) shard.lock.lock_for_fork();
  lock_huge_for_fork();
  lock_reserve_for_fork();
  lock_span_pool_for_fork();
  region_pool_lock.lock_for_fork();
  window.grow_lock().lock_for_fork();
  page_map.grow_lock().lock_for_fork();
  os::arena_lock().lock_for_fork();
}

namespace {

// The thread that was about to touch a region is the parent's: nobody else would enter what came.
void end_expecting_all_locked(Shard& shard) {
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (region->expecting) end_expecting_locked(shard, region, huge_page_came(region));
  }
}

// The thread that was purging is the parent's: its pages may or may not have gone, so they count as dirty.
void reattach_all_locked(Shard& shard) {
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (region->purging.empty()) continue;
    unsigned first = 0, length = 0;
    PageBits purging = region->purging;
    for (unsigned from = 0; purging.next_run(true, from, &first, &length); from = first + length) {
      reattach_locked(shard, Range{region, static_cast<uint16_t>(first), static_cast<uint16_t>(length), false},
                      Range{region, 0, 0, false});
    }
  }
}

}  // namespace

void unlock_after_fork(bool in_child) {
  os::arena_lock().unlock_after_fork();
  page_map.grow_lock().unlock_after_fork();
  window.grow_lock().unlock_after_fork();
  region_pool_lock.unlock_after_fork();
  unlock_span_pool_after_fork();
  unlock_reserve_after_fork();
  unlock_huge_after_fork();
  for (Shard& shard : shards) {
    if (in_child) {
      reattach_all_locked(shard);
      end_expecting_all_locked(shard);
    }
    shard.lock.unlock_after_fork();
  }
}

}  // namespace seemalloc::pages
