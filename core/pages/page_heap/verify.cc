#include "core/pages/page_heap/verify.h"

#include <atomic>

#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/retained_space.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/shard.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

namespace {

bool intersects(const PageBits& a, const PageBits& b) {
  PageBits only_a = a;
  only_a -= b;
  return only_a.count() != a.count();
}

bool includes(const PageBits& all, const PageBits& some) {
  PageBits others = some;
  others -= all;
  return others.empty();
}

// The owner of a large span may be putting it into its cache, growing it or taking it out of the
// cache.
SEEMALLOC_NO_TSAN bool entry_is_right(const Region& region, unsigned page) {
  uintptr_t address = region.address_of(page);
  const Span* span = page_map.span_of(reinterpret_cast<void*>(address));
  if (!region.used.test(page)) return span == &free_span;
  if (span == &free_span) return true;  // not yet published, or being purged
  if (span->region != &region || span->start > address || span->start % kPageBytes != 0)
    return false;
  bool may_change = span->kind == SpanKind::kLarge || span->kind == SpanKind::kCachedLarge;
  return may_change || address - span->start < span->bytes;
}

const char* verify_entries(const Region& region) {
  for (unsigned page = 0; page < kPagesPerRegion; page++) {
    if (entry_is_right(region, page)) continue;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // a span may just have been published
    if (!entry_is_right(region, page))
      return "invariant page_map.1: the entry of each page is its span, or free_span";
  }
  return nullptr;
}

const char* verify_buckets(const Shard& shard, size_t* regions) {
  for (unsigned bucket = 0; bucket <= kPagesPerRegion; bucket++) {
    bool filled = (shard.nonempty_buckets[bucket / 64] >> (bucket % 64) & 1) != 0;
    if (filled != (shard.buckets[bucket] != nullptr))
      return "invariant shard.1: `nonempty_buckets` has the buckets with a region";
    const Region* before = nullptr;
    for (const Region* region = shard.buckets[bucket]; region != nullptr;
         before = region, region = region->next, ++*regions) {
      if (region->prev != before) return "invariant shard.1: the links of a bucket agree";
      if (region->longest_free != bucket || region->used.longest_clear_run() != bucket) {
        return "invariant shard.1: a region is in the bucket of its longest free run";
      }
    }
  }
  return nullptr;
}

struct Sums {
  size_t regions, filed, used, dirty, resting, on_dirty_list, at_rest, immediate;
};

const char* verify_regions(const Shard& shard, Sums* sums) {
  const Region* before = nullptr;
  for (const Region* region = shard.all; region != nullptr;
       before = region, region = region->next_all) {
    if (region->prev_all != before)
      return "invariant shard.4: the links of the list of all regions agree";
    if (&shards[region->shard] != &shard)
      return "invariant shard.4: a region is on its shard's list";
    if (const char* broken = verify_region(*region)) return broken;
    if (const char* broken = verify_entries(*region)) return broken;
    bool purgeable = !region->dirty().empty() || !region->lazy.empty();
    if (purgeable && !region->resting && !region->on_dirty_list) {
      return "invariant shard.2: a region with dirty or lazy pages is on the dirty list, unless it rests";
    }
    sums->regions++;
    sums->used += region->used.count() - region->purging.count();
    (region->resting ? sums->resting : sums->dirty) += region->dirty().count();
    sums->on_dirty_list += region->on_dirty_list;
    sums->at_rest += region->resting;
    sums->immediate += region->immediate;
  }
  return nullptr;
}

// The lists of dirty regions and of regions that rest share their links.
const char* verify_dirty_lists(const Shard& shard, const Sums& sums) {
  size_t listed = 0, at_rest = 0, immediate = 0;
  const Region* before = nullptr;
  for (const Region* region = shard.dirty; region != nullptr;
       before = region, region = region->next_dirty, listed++) {
    if (!region->on_dirty_list || region->prev_dirty != before)
      return "invariant shard.2: the links of the dirty list agree";
    if (listed == sums.regions) return "invariant shard.2: the dirty list has an end";
  }
  before = nullptr;
  for (const Region* region = shard.resting; region != nullptr;
       before = region, region = region->next_dirty, at_rest++) {
    if (!region->resting || region->prev_dirty != before)
      return "invariant shard.2: the links of the resting regions agree";
    if (at_rest == sums.regions) return "invariant shard.2: the list of resting regions has an end";
  }
  for (const Region* region = shard.immediate; region != nullptr;
       region = region->next_immediate, immediate++) {
    if (!region->immediate || immediate == sums.regions)
      return "invariant shard.5: `immediate` has the regions that are ripe";
  }
  if (listed != sums.on_dirty_list || at_rest != sums.at_rest)
    return "invariant shard.2: each region is on the list that it says";
  return immediate == sums.immediate
             ? nullptr
             : "invariant shard.5: `immediate` has the regions that are ripe";
}

const char* verify_locked(const Shard& shard) {
  Sums sums{};
  if (const char* broken = verify_buckets(shard, &sums.filed)) return broken;
  if (const char* broken = verify_regions(shard, &sums)) return broken;
  if (sums.filed != sums.regions) return "invariant shard.1: each region is in one bucket";
  if (const char* broken = verify_dirty_lists(shard, sums)) return broken;
  if (shard.used_pages != sums.used)
    return "invariant shard.3: used_pages is the sum over the regions";
  if (shard.dirty_pages != sums.dirty)
    return "invariant shard.3: dirty_pages is the sum over the regions";
  if (shard.resting_pages != sums.resting)
    return "invariant shard.3: resting_pages is the sum over the regions";
  return shard.peak_pages >= shard.used_pages
             ? nullptr
             : "invariant shard.3: peak_pages is no less than used_pages";
}

}  // namespace

const char* verify_region(const Region& region) {
  PageBits dirty = region.dirty();
  if (region.base % kRegionBytes != 0) return "invariant region.1: a region is aligned to its size";
  if (intersects(region.used, dirty) || intersects(region.used, region.lazy) ||
      intersects(dirty, region.lazy) ||
      dirty.count() != region.young.count() + region.old.count() + region.due.count()) {
    return "invariant region.2: a page is in one of used, young, old, due and lazy, or clean";
  }
  if (!includes(region.used, region.purging))
    return "invariant region.3: pages being purged are used";
  if (!includes(dirty, region.spare)) return "invariant region.3: spare pages are dirty";
  if (region.expecting_huge_page + region.collapsing + region.on_huge_page > 1) {
    return "invariant region.4: a region lies on a huge page, expects one, is moved onto one, or none of these";
  }
  if (region.resting &&
      (!region.on_huge_page || region.on_dirty_list || region.used.count() < kDensePages)) {
    return "invariant region.5: a region that rests is dense, lies on a huge page and is not on the dirty list";
  }
  return nullptr;
}

const char* verify_shard(Shard& shard) {
  LockGuard guard(shard.lock);
  return verify_locked(shard);
}

const char* HugeCache::verify() const {
  size_t bytes = 0;
  for (unsigned i = 0; i < count_; i++) {
    if (extents_[i].bytes == 0) return "invariant huge_cache.1: no extent is empty";
    bool overlaps = i != 0 && extents_[i - 1].start + extents_[i - 1].bytes > extents_[i].start;
    if (overlaps) return "invariant huge_cache.1: extents are sorted and do not overlap";
    bytes += extents_[i].bytes;
  }
  return bytes == dirty_bytes_ ? nullptr
                               : "invariant huge_cache.2: dirty_bytes is the sum over the extents";
}

const char* RetainedSpace::verify() {
  size_t bytes = 0, ranges = 0;
  for (unsigned bin = 0; bin < kBins; bin++) {
    const Record* before = nullptr;
    for (const Record* record = bins_[bin]; record != nullptr;
         before = record, record = record->next, ranges++) {
      const Range& range = record->range;
      if (range.bytes == 0 || (range.start | range.bytes) % kPageBytes != 0 ||
          by_end_.find(range.start) != nullptr) {
        return "invariant retained_space.1: ranges are whole pages and do not touch";
      }
      Record** start = by_start_.find(range.start);
      Record** end = by_end_.find(range.end());
      if (start == nullptr || *start != record || end == nullptr || *end != record) {
        return "invariant retained_space.2: by_start and by_end have each range once";
      }
      if (record->previous != before || bin_of(range.bytes) != bin)
        return "invariant retained_space.3: a range is in its size's bin";
      bytes += range.bytes;
    }
  }
  if (ranges != by_start_.size() || ranges != by_end_.size())
    return "invariant retained_space.2: by_start and by_end have each range once";
  return bytes == bytes_ ? nullptr : "invariant retained_space.3: bytes is the sum over the ranges";
}

const char* verify_pages() {
  for (unsigned i = 0; i < shards_in_use(); i++) {
    if (const char* broken = verify_shard(shards[i])) return broken;
  }
  if (const char* broken = verify_huge()) return broken;
  if (const char* broken = verify_huge_space()) return broken;
  return verify_span_pool();
}

}  // namespace seemalloc::pages
