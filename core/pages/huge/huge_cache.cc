#include "core/pages/huge/huge_cache.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/units.h"

namespace seemalloc::pages {

void HugeCache::remove(unsigned first, unsigned count) {
  DCHECK(first + count <= count_);
  memmove(&extents_[first], &extents_[first + count], (count_ - first - count) * sizeof(Extent));
  count_ -= count;
}

bool HugeCache::put(Extent extent) {
  DCHECK(extent.bytes != 0);
  unsigned i = 0;
  while (i < count_ && extents_[i].start < extent.start) i++;
  DCHECK(i == 0 || extents_[i - 1].start + extents_[i - 1].bytes <= extent.start);
  DCHECK(i == count_ || extent.start + extent.bytes <= extents_[i].start);
  auto joins = [](const Extent& before, const Extent& behind) {
    return is_adjacent(before, behind) && before.freed_ns == behind.freed_ns;
  };
  bool with_before = i != 0 && joins(extents_[i - 1], extent);
  bool with_behind = i != count_ && joins(extent, extents_[i]);
  if (!with_before && !with_behind && count_ == kMaxExtents) return false;
  dirty_bytes_ += extent.bytes;
  if (with_before) {
    extents_[i - 1].bytes += extent.bytes;
    if (with_behind) {
      extents_[i - 1].bytes += extents_[i].bytes;
      remove(i, 1);
    }
  } else if (with_behind) {
    extents_[i].start = extent.start;
    extents_[i].bytes += extent.bytes;
  } else {
    memmove(&extents_[i + 1], &extents_[i], (count_ - i) * sizeof(Extent));
    extents_[i] = extent;
    count_++;
    DCHECK(count_ <= kMaxExtents);
  }
  return true;
}

// Returns the index behind the last extent of the run, and the run's bytes.
unsigned HugeCache::end_of_run(unsigned first, size_t* bytes) const {
  DCHECK(first < count_);
  unsigned i = first;
  for (*bytes = extents_[i].bytes; i + 1 < count_ && is_adjacent(extents_[i], extents_[i + 1]); i++)
    *bytes += extents_[i + 1].bytes;
  return i + 1;
}

// Takes the first `bytes` of the run that starts at an extent. Requires: the run has them. *out
// gets the latest freed_ns of its parts.
void HugeCache::take_from(unsigned first, size_t bytes, Extent* out) {
  DCHECK(first < count_ && bytes != 0 && dirty_bytes_ >= bytes);
  *out = extents_[first];
  out->bytes = bytes;
  dirty_bytes_ -= bytes;
  unsigned whole = first;
  while (bytes != 0 && extents_[whole].bytes <= bytes) {
    if (extents_[whole].freed_ns > out->freed_ns) out->freed_ns = extents_[whole].freed_ns;
    bytes -= extents_[whole++].bytes;
  }
  DCHECK(whole <= count_ && (bytes == 0 || whole < count_));
  if (bytes != 0) {
    if (extents_[whole].freed_ns > out->freed_ns) out->freed_ns = extents_[whole].freed_ns;
    extents_[whole].start += bytes;
    extents_[whole].bytes -= bytes;
  }
  remove(first, whole - first);
}

bool HugeCache::take_fit(size_t bytes, size_t alignment, size_t least_rest, Extent* out) {
  DCHECK(bytes != 0 && is_power_of_two(alignment));
  unsigned best = kMaxExtents;
  size_t best_bytes = SIZE_MAX;
  for (unsigned i = 0; i < count_;) {
    size_t run_bytes;
    unsigned end = end_of_run(i, &run_bytes);
    if (run_bytes >= bytes && run_bytes < best_bytes &&
        (extents_[i].start & (alignment - 1)) == 0) {
      best = i;
      best_bytes = run_bytes;
    }
    i = end;
  }
  if (best == kMaxExtents) return false;
  bool whole = best_bytes - bytes < (extents_[best].sparse ? bytes : least_rest);
  take_from(best, whole ? best_bytes : bytes, out);
  return true;
}

bool HugeCache::take_at(uintptr_t start, size_t bytes, Extent* out) {
  for (unsigned i = 0; i < count_ && extents_[i].start <= start; i++) {
    if (extents_[i].start != start) continue;
    size_t run_bytes;
    end_of_run(i, &run_bytes);
    if (run_bytes < bytes) return false;
    take_from(i, bytes, out);
    return true;
  }
  return false;
}

// The smallest extent that has `bytes`, else the largest; kMaxExtents when none has `least` bytes.
unsigned HugeCache::tightest_extent(size_t bytes, size_t least, bool sparse) const {
  unsigned best = kMaxExtents;
  for (unsigned i = 0; i < count_; i++) {
    const Extent& e = extents_[i];
    if (e.sparse != sparse || e.bytes < least) continue;
    if (best != kMaxExtents) {
      size_t best_bytes = extents_[best].bytes;
      if (best_bytes < bytes ? e.bytes <= best_bytes : e.bytes < bytes || e.bytes >= best_bytes)
        continue;
    }
    best = i;
  }
  return best;
}

unsigned HugeCache::take_extents(size_t bytes, size_t least, Extent* extents, unsigned most) {
  unsigned count = 0;
  while (count < most && bytes >= least) {
    unsigned best = tightest_extent(bytes, least, false);
    bool sparse = best == kMaxExtents && count == 0;
    if (sparse) best = tightest_extent(bytes, least, true);
    if (best == kMaxExtents) break;
    size_t part = extents_[best].bytes < bytes ? extents_[best].bytes : bytes;
    take_from(best, part, &extents[count++]);
    if (sparse) break;
    bytes -= part;
  }
  return count;
}

bool HugeCache::take_old(uint64_t cutoff_ns, Extent* out) {
  for (unsigned i = 0; i < count_; i++) {
    if (extents_[i].freed_ns >= cutoff_ns) continue;
    take_from(i, extents_[i].bytes, out);
    return true;
  }
  return false;
}

bool HugeCache::take_oldest_where(bool sparse_only, Extent* out) {
  uint64_t oldest = UINT64_MAX;
  unsigned found = kMaxExtents;
  for (unsigned i = 0; i < count_; i++) {
    // UINT64_MAX: could be neither unmapped nor purged.
    if ((sparse_only && !extents_[i].sparse) || extents_[i].freed_ns >= oldest) continue;
    oldest = extents_[i].freed_ns;
    found = i;
  }
  if (found == kMaxExtents) return false;
  take_from(found, extents_[found].bytes, out);
  return true;
}

size_t HugeCache::sparse_bytes() const {
  size_t bytes = 0;
  for (unsigned i = 0; i < count_; i++) bytes += extents_[i].sparse ? extents_[i].bytes : 0;
  return bytes;
}

}  // namespace seemalloc::pages
