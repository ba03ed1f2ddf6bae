#include "core/pages/page_heap/page_heap.h"

#include <arch_words.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/cpus.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/page_heap/collapse.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/page_heap/sweep.h"
#include "core/pages/policy/huge_page_pacing.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/growth.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/region.h"
#include "core/pages/span/region_count.h"
#include "core/pages/span/region_walk.h"
#include "core/pages/span/reserve.h"
#include "core/pages/span/shard.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

constinit HugePagePacing huge_page_pacing;

constinit thread_local Growth growth __attribute__((tls_model("initial-exec"))) = {};

namespace {

std::atomic<unsigned> shard_cursor{0};

// Memory that is resident only because of huge pages, and was never allocated, stays below
// 1/kSpareShare of the regions' memory.
constexpr size_t kSpareShare = 32;

Lock region_pool_lock;
os::Pool<Region> region_pool;

Region* take_region() {
  LockGuard guard(region_pool_lock);
  return region_pool.take();
}

Region* add_region_locked(Shard& shard) {
  DCHECK(shard.lock.is_held());
  uintptr_t base = reserve_region();
  if (base == 0) return nullptr;
  Region* region = page_map.reserve(base, kRegionBytes) ? take_region() : nullptr;
  if (region == nullptr) {
    unreserve_region(base);
    return nullptr;
  }
  DCHECK(base % kRegionBytes == 0);
  *region = Region{};
  region->base = base;
  region->shard = static_cast<uint16_t>(&shard - shards);
  region->longest_free = kPagesPerRegion;
  page_map.set_free(base, kRegionBytes);
  shard.add_to_all(region);
  shard.insert_in_bucket(region);
  count_mapped_region();
  note_growth(kRegionBytes);
  return region;
}

struct Run {
  Region* region;
  unsigned first;
  unsigned pages;
  unsigned longest_left;  // the region's longest free run after this one is taken
  bool clean;             // all of it reads as zero
  bool takes_huge_page;   // the first touch maps a huge page for the whole region
};

// Finds a run. Returns false when the shard's regions have none. Spare memory of huge pages is
// reserved for dense spans.
bool find_run_locked(Shard& shard, unsigned alignment, bool dense, Run* run) {
  DCHECK(shard.lock.is_held());
  DCHECK(run->pages != 0 && run->pages <= kPagesPerRegion);
  for (unsigned bucket = shard.tightest_bucket(run->pages); bucket <= kPagesPerRegion;
       bucket = shard.tightest_bucket(bucket + 1)) {
    for (Region* candidate = shard.buckets[bucket]; candidate != nullptr;
         candidate = candidate->next) {
      if (!dense && !candidate->spare.empty()) continue;
      PageBits::Fit fit = candidate->used.find_clear(run->pages, alignment);
      DCHECK(alignment > 1 || fit.first != kPagesPerRegion);
      if (fit.first == kPagesPerRegion) continue;  // possible only with an alignment
      DCHECK(fit.first % alignment == 0 && !candidate->used.any(fit.first, run->pages));
      run->region = candidate;
      run->first = fit.first;
      run->longest_left = fit.longest;
      return true;
    }
  }
  return false;
}

// Bytes of these free pages that have no memory behind them.
size_t clean_bytes(const Region* region, unsigned first, unsigned pages) {
  unsigned dirty = region->is_dirty(first, pages) ? region->dirty().count(first, pages) : 0;
  return (pages - dirty) * kPageBytes;
}

// Dirty pages read as zero, too, if they became resident with a huge page and were never allocated.
bool reads_as_zero(const Region* region, unsigned first, unsigned pages) {
  PageBits written = region->dirty();
  written -= region->spare;
  written |= region->lazy;
  return !written.any(first, pages);
}

// Marks pages as used and clean. Returns true when all of them read as zero. The caller refiles the
// region.
bool take_pages(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  DCHECK(&shard == &shards[region->shard]);
  DCHECK(pages != 0 && !region->used.any(first, pages));
  region->used.set(first, pages);
  shard.runs_allocated++;
  racy_store(shard.used_pages, shard.used_pages + pages);
  if (shard.used_pages > shard.peak_pages) shard.peak_pages = shard.used_pages;
  note_refaults(shard, region, first, pages);
  if (!region->is_dirty(first, pages) && !region->lazy.any(first, pages)) return true;
  bool clean = reads_as_zero(region, first, pages);
  DCHECK(shard.dirty_count(region) >= region->dirty().count(first, pages));
  shard.dirty_count(region) -= region->dirty().count(first, pages);
  region->clear_dirty(first, pages);
  region->lazy.clear(first, pages);
  clear_spare(region, first, pages);
  return clean;
}

void free_pages(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  DCHECK(pages != 0 && region->used.count(first, pages) == pages);
  DCHECK(!region->purging.any(first, pages));
  DCHECK(!region->is_dirty(first, pages) && !region->lazy.any(first, pages));
  DCHECK(shard.used_pages >= pages);
  region->used.clear(first, pages);
  region->young.set(first, pages);
  region->freed_since_dense_pages = static_cast<uint16_t>(
      region->freed_since_dense_pages + pages < UINT16_MAX ? region->freed_since_dense_pages + pages
                                                           : UINT16_MAX);
  racy_store(shard.used_pages, shard.used_pages - pages);
  shard.dirty_count(region) += pages;
  if (region->resting && region->used.count() < kDensePages) shard.show_to_purge(region);
  if (!region->resting) shard.put_on_dirty_list(region);
  if (!region->resting && purge_mode() == options::Purge::kEager)
    queue_immediate_purge(shard, region, first);
  unsigned run = region->used.clear_run_around(first);
  if (run > region->longest_free) shard.move_to_bucket(region, run);
}

// ---- huge pages ----

bool huge_pages_on() { return options::get(options::Id::huge_pages) != 0; }

// Makes the next fault in a region without memory take a huge page, if it is time for one. Requires
// that nothing of the region is allocated: a single small page would prevent it.
bool expect_huge_page_locked(Region* region) {
  if (region->collapsing || region->longest_free != kPagesPerRegion) return false;
  if (!region->dirty().empty() || !region->lazy.empty()) return false;
  DCHECK(!region->expecting_huge_page && region->used.empty());
  size_t spare_after = spare_pages.load(std::memory_order_relaxed) + kPagesPerRegion;
  if (spare_after * kSpareShare > size_t{region_count()} * kPagesPerRegion) return false;
  if (under_memory_pressure.load(std::memory_order_relaxed) ||
      !memory_account.has_room(kRegionBytes))
    return false;
  if (!huge_pages_on() || !huge_page_pacing.due()) return false;
  if (!os::set_huge_pages(reinterpret_cast<void*>(region->base), kRegionBytes, true)) {
    huge_page_pacing.refused(0);
    return false;
  }
  spare_pages.fetch_add(kPagesPerRegion, std::memory_order_relaxed);
  region->expecting_huge_page = true;
  return true;
}

// Returns false when heap_limit is reached.
bool claim_run_locked(Shard& shard, bool dense, Run* run) {
  DCHECK(run->region->shard == &shard - shards);
  if (!memory_account.charge(clean_bytes(run->region, run->first, run->pages))) return false;
  run->takes_huge_page = dense && expect_huge_page_locked(run->region);
  run->clean = take_pages(shard, run->region, run->first, run->pages);
  shard.move_to_bucket(run->region, run->longest_left);
  return true;
}

// The rest of the huge page is ordinary free memory: it is purged if it is not allocated.
void add_spare_pages_locked(Shard& shard, Region* region) {
  DCHECK(!region->on_huge_page && !region->resting);
  DCHECK(region->spare.empty());
  region->on_huge_page = true;
  region->spare.set(0, kPagesPerRegion);
  region->spare -= region->used;
  region->spare -= region->dirty();
  region->spare -= region->lazy;
  region->young |= region->spare;
  shard.dirty_pages += region->spare.count();
  spare_pages.fetch_add(region->spare.count(), std::memory_order_relaxed);
  memory_account.add(region->spare.count() * kPageBytes);
  shard.put_on_dirty_list(region);
}

void end_expected_huge_page_locked(Shard& shard, Region* region, bool came) {
  DCHECK(shard.lock.is_held());
  DCHECK(region->expecting_huge_page && !region->collapsing);
  DCHECK(spare_pages.load(std::memory_order_relaxed) >= kPagesPerRegion);
  region->expecting_huge_page = false;
  if (came) add_spare_pages_locked(shard, region);
  spare_pages.fetch_sub(kPagesPerRegion, std::memory_order_relaxed);
}

// Clears the advice again: the kernel's own collapsing of small pages must not bring back purged
// memory, and mappings merge.
bool huge_page_arrived(const Region* region) {
  os::set_huge_pages(reinterpret_cast<void*>(region->base), kRegionBytes, false);
  uintptr_t last_page = region->base + kRegionBytes - os::page_bytes();
  return os::resident_bytes(reinterpret_cast<void*>(last_page), os::page_bytes(),
                            os::Reason::kHugePages) != 0;
}

// Touches the run, which is ours, and measures the time that the kernel takes.
void fault_huge_page(const Run& run) {
  Region* region = run.region;
  uint64_t begin = os::thread_cpu_ns();
  *reinterpret_cast<volatile char*>(region->address_of(run.first)) = 0;
  uint64_t took = os::thread_cpu_ns() - begin;
  bool came = huge_page_arrived(region);
  came ? huge_page_pacing.delivered(took) : huge_page_pacing.refused(took);
  Shard& shard = shards[region->shard];
  LockGuard guard(shard.lock);
  end_expected_huge_page_locked(shard, region, came);
}

// ---- runs ----

bool take_run_from_new_region(Shard& shard, bool dense, Run* run) {
  LockGuard guard(shard.lock);
  run->region = add_region_locked(shard);
  if (run->region == nullptr) return false;
  // Where the system gives huge pages by default, a small heap would take 2 MiB at its first touch.
  // The advice is cleared even if a huge page is expected: a region that was merged with its
  // neighbours' mapping merges again.
  if (huge_pages_on())
    os::set_huge_pages(reinterpret_cast<void*>(run->region->base), kRegionBytes, false);
  run->first = 0;
  run->longest_left = kPagesPerRegion - run->pages;
  return claim_run_locked(shard, dense, run);
}

// Takes the run from this shard, else from another, else from a new region.
bool take_run(unsigned shard_index, unsigned alignment, bool dense, Run* run) {
  unsigned count = shards_in_use();
  for (unsigned i = 0; i < count; i++) {
    Shard& shard = shards[(shard_index + i) % count];
    LockGuard guard(shard.lock);
    if (!find_run_locked(shard, alignment, dense, run)) continue;
    return claim_run_locked(shard, dense, run);
  }
  return take_run_from_new_region(shards[shard_index % count], dense, run);
}

}  // namespace

size_t bytes_in_spans() {
  size_t pages = 0;
  for (unsigned i = 0; i < shards_in_use(); i++) pages += racy_load(shards[i].used_pages);
  return pages * kPageBytes + huge_used_bytes();
}
bool heap_is_tiny() { return region_count() < 2 && memory_account.bytes() <= kRegionBytes; }

// CPUs are counted when the second thread heap appears: a program of one thread needs only one
// shard, and counting takes several system calls.
unsigned next_shard() {
  unsigned turn = shard_cursor.fetch_add(1, std::memory_order_relaxed);
  if (turn == 1) {
    unsigned count = os::cpu_count();
    set_shards_in_use(count > kMaxShards ? kMaxShards : count);
  }
  return turn % shards_in_use();
}

Span* allocate_run(unsigned shard_index, size_t page_count, size_t alignment_pages, SpanKind kind,
                   bool dense) {
  DCHECK(page_count != 0 && page_count <= kPagesPerRegion);
  DCHECK(is_power_of_two(alignment_pages) && alignment_pages <= kPagesPerRegion);
  Span* span = allocate_span_record(kind);
  if (span == nullptr) return nullptr;
  Run run{};
  run.pages = static_cast<unsigned>(page_count);
  if (!take_run(shard_index, static_cast<unsigned>(alignment_pages), dense, &run)) {
    free_span_record(span);
    return nullptr;
  }
  if (run.takes_huge_page) fault_huge_page(run);
  span->region = run.region;
  span->start = run.region->address_of(run.first);
  span->bytes = page_count * kPageBytes;
  span->known_zero = run.clean;
  DCHECK(span->start % (alignment_pages * kPageBytes) == 0);
  DCHECK(page_map.span_of(reinterpret_cast<void*>(span->start)) == &free_span);
  return span;
}

void publish(Span* span) {
  DCHECK(span->region != nullptr &&
         span->region->page_of(span->start) + (span->bytes >> kPageShift) <= kPagesPerRegion);
  page_map.set(span->start, span->bytes, span);
}

void release(Span* span) {
  Region* region = span->region;
  DCHECK(region != nullptr &&
         region->page_of(span->start) + (span->bytes >> kPageShift) <= kPagesPerRegion);
  DCHECK(span->kind == SpanKind::kSmall || span->kind == SpanKind::kSampled ||
         span->kind == SpanKind::kLarge || span->kind == SpanKind::kCachedLarge);
  DCHECK(page_map.span_of(reinterpret_cast<void*>(span->start)) == span);
  DCHECK(page_map.span_of(reinterpret_cast<void*>(span->start + span->bytes - 1)) == span);
  page_map.set_free(span->start, span->bytes);
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    free_pages(shard, region, region->page_of(span->start),
               static_cast<unsigned>(span->bytes >> kPageShift));
  }
  free_span_record(span);
}

bool try_extend(Span* span, size_t page_count) {
  DCHECK(span->kind == SpanKind::kLarge && page_count > span->bytes >> kPageShift);
  Region* region = span->region;
  size_t have = span->bytes >> kPageShift;
  unsigned first = region->page_of(span->start);
  unsigned more = static_cast<unsigned>(page_count - have);
  if (first + page_count > kPagesPerRegion) return false;
  {
    Shard& shard = shards[region->shard];
    LockGuard guard(shard.lock);
    if (region->used.any(first + static_cast<unsigned>(have), more)) return false;
    if (!memory_account.charge(clean_bytes(region, first + static_cast<unsigned>(have), more)))
      return false;
    take_pages(shard, region, first + static_cast<unsigned>(have), more);
    shard.move_to_bucket(region);
  }
  page_map.set(span->start + span->bytes, size_t{more} * kPageBytes, span);
  span->bytes = page_count * kPageBytes;
  return true;
}

bool is_on_huge_page(const Span* span) {
  DCHECK(span->region != nullptr);
  LockGuard guard(shards[span->region->shard].lock);
  return span->region->on_huge_page || span->region->collapsing;
}

bool begin_huge_page_split(const Span* span) {
  DCHECK(span->region != nullptr);
  Shard& shard = shards[span->region->shard];
  LockGuard guard(shard.lock);
  Region* region = span->region;
  bool may_be_huge = region->on_huge_page || region->collapsing;
  if (region->resting) shard.show_to_purge(region);
  region->on_huge_page = false;
  region->split_while_collapsing = true;  // relevant while it is being moved
  return may_be_huge;
}

void shrink(Span* span, size_t page_count) {
  DCHECK(span->kind == SpanKind::kLarge && page_count != 0);
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

namespace {

// Removes one region without spans from the heap's metadata. Returns null when there is none.
Region* detach_empty_locked(Shard& shard) {
  Region* region = shard.buckets[kPagesPerRegion];
  while (region != nullptr && region->collapsing) region = region->next;
  if (region == nullptr) return nullptr;
  DCHECK(region->used.empty() && region->purging.empty());
  DCHECK(!region->expecting_huge_page && !region->resting);
  shard.remove_from_bucket(region);
  if (shard.next_collapse_check == region) shard.next_collapse_check = region->next_all;
  clear_spare(region, 0, kPagesPerRegion);
  memory_account.uncharge(region->dirty().count() * kPageBytes);
  shard.remove_from_all(region);
  if (region->on_dirty_list) shard.take_off_dirty_list(region->prev_dirty);
  if (region->immediate) {
    Region** link = &shard.immediate;
    while (*link != region) link = &(*link)->next_immediate;
    *link = region->next_immediate;
  }
  DCHECK(shard.dirty_pages >= region->dirty().count());
  shard.dirty_pages -= region->dirty().count();
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
      count_unmapped_region();
      unmap_region(region->base);
      bytes += kRegionBytes;
      LockGuard guard(region_pool_lock);
      region_pool.give(region);
    }
  }
  return bytes + unmap_reserve() + unmap_retained_huge();
}

// Subtracts the most that we could return: the OS decides by the mapped size (RLIMIT_AS, committed
// memory) or by the request alone.
bool purging_may_help(size_t bytes) {
  size_t ours = region_count() * kRegionBytes + huge_totals(false).cached_bytes +
                huge_space().retained_bytes + reserve_bytes();
  bool is_filled = false;
  auto granted = [&is_filled](size_t wanted) {
    void* probe = os::map(wanted, os::Reason::kPressure);
    if (probe == nullptr) return false;
    is_filled = os::resident_bytes(probe, os::page_bytes(), os::Reason::kPressure) != 0;
    os::unmap(probe, wanted, os::Reason::kPressure);
    return true;
  };
  // If not even one page is granted, the number of mappings may be the cause. If a fresh page is
  // filled at once (mlockall), a large probe would be filled too.
  return bytes <= ours || !granted(os::page_bytes()) || is_filled ||
         granted(round_up(bytes - ours, os::page_bytes()));
}

PageStatistics page_statistics() {
  PageStatistics statistics{};
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Shard& shard = shards[i];
    LockGuard guard(shard.lock);
    for (Region* region = shard.all; region != nullptr; region = region->next_all) {
      statistics.regions++;
      statistics.mapped_bytes += kRegionBytes;
      statistics.used_bytes += region->used.count() * kPageBytes;
      statistics.huge_pages += region->on_huge_page ? 1 : 0;
      statistics.dirty_bytes += region->dirty().count() * kPageBytes;
      statistics.lazy_bytes += region->lazy.count() * kPageBytes;
    }
  }
  return statistics;
}

namespace {
// The owner of a large span may be putting it into its cache or taking it out.
SEEMALLOC_NO_TSAN void visit_spans_locked(const Region& region,
                                          void (*f)(void* context, Span* span), void* context) {
  for (unsigned page = 0; page < kPagesPerRegion;) {
    Span* span = page_map.span_of(reinterpret_cast<void*>(region.address_of(page)));
    // A run being allocated or purged is marked used but is not (or no longer) in the map.
    bool is_span = span->kind != SpanKind::kFree && span->start == region.address_of(page);
    if (is_span) f(context, span);
    page += is_span ? static_cast<unsigned>(span->bytes >> kPageShift) : 1;
  }
}
}  // namespace

void for_each_span(void (*f)(void* context, Span* span), void* context) {
  struct Visit {
    void (*f)(void* context, Span* span);
    void* context;
  } visit{f, context};
  auto visit_region = [](void* v, const Region& region) {
    const Visit& to = *static_cast<const Visit*>(v);
    visit_spans_locked(region, to.f, to.context);
  };
  RegionWalk walk;
  while (walk.next(visit_region, &visit)) {
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
// The thread that was about to touch a region exists only in the parent, so the child must enter
// the huge page itself.
void end_expected_huge_pages_in_child_locked(Shard& shard) {
  for (Region* region = shard.all; region != nullptr; region = region->next_all) {
    if (region->expecting_huge_page)
      end_expected_huge_page_locked(shard, region, huge_page_arrived(region));
  }
}
}  // namespace

namespace {
// If fork interrupted a change of the counters, they do not match the charge: it is left as it is.
void reset_memory_account_in_child() {
  if (fork_interrupted_critical_section) return;
  size_t pages = 0;
  for (Shard& shard : shards) pages += shard.used_pages + shard.dirty_pages + shard.resting_pages;
  memory_account.reset_in_child(pages * kPageBytes);
  report_huge_bytes_in_child();
}
}  // namespace

void unlock_after_fork(bool in_child) {
  os::arena_lock().unlock_after_fork();
  page_map.grow_lock().unlock_after_fork();
  window.grow_lock().unlock_after_fork();
  region_pool_lock.unlock_after_fork();
  unlock_span_pool_after_fork(in_child);
  unlock_reserve_after_fork();
  unlock_huge_after_fork();
  if (in_child) reset_purge_counters_in_child();
  for (Shard& shard : shards) {
    if (in_child) {
      shard.cursors = nullptr;  // on stacks of the parent's threads
      reattach_all_locked(shard);
      end_expected_huge_pages_in_child_locked(shard);
      end_collapses_in_child_locked(shard);
    }
    shard.lock.unlock_after_fork();
  }
  if (in_child) reset_memory_account_in_child();
}

}  // namespace seemalloc::pages
