// HugeCache: huge memory that was freed and not yet given back, extent by extent in the order of addresses.
//
// Extents side by side serve one request together (a run); they become one only when freed at about the same time, so that
// each goes back when its time has come. A sparse extent, which the program hardly touched, is kept for itself: its few pages
// are where the next block has its first ones too, and would come to lie in the middle of others. Pure data, no system calls; the owner's lock protects it. Cost: a walk over at
// most kExtents records.
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
  static constexpr unsigned kExtents = 512;

  // False when there is no record left.
  bool put(Extent extent);

  // The first `bytes` of the tightest run that has them and starts aligned; all of it where less than `least_rest` would be
  // left. Of a sparse one what is left is no use to others: all of it, up to twice `bytes`.
  bool take_fit(size_t bytes, size_t alignment, size_t least_rest, Extent* out);
  // Exactly [start, start + bytes).
  bool take_at(uintptr_t start, size_t bytes, Extent* out);
  // Extents of at least `least` bytes each, up to `bytes` in all and as few as possible; else one that
  // is sparse. Returns how many.
  unsigned take_pieces(size_t bytes, size_t least, Extent* pieces, unsigned most);
  // One that was freed before `cutoff_ns`.
  bool take_old(uint64_t cutoff_ns, Extent* out);
  // The one that was freed longest ago.
  bool take_oldest(Extent* out) { return take_oldest_where(false, out); }
  // The same of those that are sparse.
  bool take_oldest_sparse(Extent* out) { return take_oldest_where(true, out); }
  // Of all that are sparse.
  size_t sparse_bytes() const;

  size_t dirty_bytes() const { return dirty_bytes_; }
  // Copies them, at most kExtents. Returns how many.
  unsigned copy(Extent* out) const {
    for (unsigned i = 0; i < count_; i++) out[i] = extents_[i];
    return count_;
  }

 private:
  static bool continues(const Extent& before, const Extent& behind) {
    return before.start + before.bytes == behind.start && !before.sparse && !behind.sparse;
  }
  bool take_oldest_where(bool sparse_only, Extent* out);
  unsigned tightest_piece(size_t bytes, size_t least, bool sparse) const;
  unsigned end_of_run(unsigned first, size_t* bytes) const;
  void take_from(unsigned first, size_t bytes, Extent* out);
  void remove(unsigned first, unsigned count);

  unsigned count_ = 0;
  size_t dirty_bytes_ = 0;
  Extent extents_[kExtents] = {};
};

}  // namespace seemalloc::pages
