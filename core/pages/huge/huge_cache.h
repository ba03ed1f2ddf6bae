// HugeCache: freed huge memory that is not yet unmapped, as extents in address order.
//
// Adjacent extents serve one request together (a run). They are merged only when they were freed at
// about the same time, so that each extent is purged at its own time. A sparse extent, of which the
// program touched few pages, is never part of a run: its resident pages are at its start, where the
// next block needs them too, and would end up in the middle of a run.
// Pure data, no system calls; the owner's lock protects it. Cost: a walk over at most kMaxExtents
// records.
// Invariant: extents are sorted, do not overlap, and are never empty.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

struct Extent {
  uintptr_t start;
  size_t bytes;
  uint64_t freed_ns;
  bool sparse;
};

class HugeCache {
 public:
  static constexpr unsigned kMaxExtents = 512;

  // Returns false when no record is free.
  bool put(Extent extent);

  // Takes the first `bytes` of the tightest run that has them and starts aligned. Takes the whole
  // run if less than `least_rest` would remain. The rest of a sparse extent is of no use to others:
  // it is taken too, up to twice `bytes` in all.
  bool take_fit(size_t bytes, size_t alignment, size_t least_rest, Extent* out);
  // Exactly [start, start + bytes).
  bool take_at(uintptr_t start, size_t bytes, Extent* out);
  // Takes as few extents as possible, of at least `least` bytes each and up to `bytes` in all; if
  // there is none, one sparse extent. Returns their number.
  unsigned take_extents(size_t bytes, size_t least, Extent* extents, unsigned most);
  // Takes an extent that was freed before `cutoff_ns`.
  bool take_old(uint64_t cutoff_ns, Extent* out);
  // Takes the extent that was freed first.
  bool take_oldest(Extent* out) { return take_oldest_where(false, out); }
  // Takes the sparse extent that was freed first.
  bool take_oldest_sparse(Extent* out) { return take_oldest_where(true, out); }
  // Bytes of all sparse extents.
  size_t sparse_bytes() const;

  // The broken invariant, or null (verify.cc). 1: extents are sorted, do not overlap and are not
  // empty. 2: dirty_bytes() is the sum over the extents.
  const char* verify() const;
  size_t dirty_bytes() const { return dirty_bytes_; }
  // Copies the extents, at most kMaxExtents. Returns their number.
  unsigned copy(Extent* out) const {
    for (unsigned i = 0; i < count_; i++) out[i] = extents_[i];
    return count_;
  }

 private:
  static bool is_adjacent(const Extent& before, const Extent& behind) {
    return before.start + before.bytes == behind.start && !before.sparse && !behind.sparse;
  }
  bool take_oldest_where(bool sparse_only, Extent* out);
  unsigned tightest_extent(size_t bytes, size_t least, bool sparse) const;
  unsigned end_of_run(unsigned first, size_t* bytes) const;
  void take_from(unsigned first, size_t bytes, Extent* out);
  void remove(unsigned first, unsigned count);

  unsigned count_ = 0;
  size_t dirty_bytes_ = 0;
  Extent extents_[kMaxExtents] = {};
};

}  // namespace seemalloc::pages
