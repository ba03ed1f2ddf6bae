#include "core/heap/reports/residency.h"

#include "core/heap/reports/heap_map.h"
#include "core/heap/spans/sampled.h"
#include "core/heap/spans/small_span.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/report_memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::heap {

namespace {

size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// The resident fraction of the bytes that the heap's counters report, over the queried chunks.
// Invariant: 0 <= resident <= booked for each chunk.
class ResidentRatio {
 public:
  void add(size_t counted, size_t resident) {
    double x = static_cast<double>(counted), y = static_cast<double>(resident);
    chunks_++;
    booked_ += x;
    resident_ += y;
    xx_ += x * x;
    xy_ += x * y;
    yy_ += y * y;
  }
  double rate() const { return booked_ > 0 ? resident_ / booked_ : 0; }
  size_t resident() const { return static_cast<size_t>(resident_); }
  size_t of(size_t counted) const {
    return static_cast<size_t>(rate() * static_cast<double>(counted));
  }
  // The variance of the estimate for all of this many chunks.
  double variance(double chunks) const {
    if (chunks_ < 2 || chunks <= chunks_) return 0;
    double rate = this->rate(), square = yy_ - 2 * rate * xy_ + rate * rate * xx_;
    return square > 0 ? chunks * (chunks - chunks_) / chunks_ * square / (chunks_ - 1) : 0;
  }

 private:
  double chunks_ = 0, booked_ = 0, resident_ = 0, xx_ = 0, xy_ = 0, yy_ = 0;
};

// The OS pages of a chunk that are resident.
class ResidentPages {
 public:
  // Returns false if the kernel refuses the query: then all pages count as resident. Pages that
  // have been unmapped meanwhile do not.
  bool ask(uintptr_t start, size_t bytes) {
    start_ = round_down(start, os::page_bytes());
    os::ResidencyResult kernel_answered =
        os::query_resident_pages(reinterpret_cast<void*>(start_), start + bytes - start_,
                                 os::Reason::kReport, resident_pages_);
    if (kernel_answered == os::ResidencyResult::kYes) return true;
    for (unsigned char& page : resident_pages_)
      page = kernel_answered == os::ResidencyResult::kRefused ? 1 : 0;
    return kernel_answered != os::ResidencyResult::kRefused;
  }
  // Requires: the range is in the chunk.
  size_t bytes_of(uintptr_t from, uintptr_t to) const {
    size_t page_bytes = os::page_bytes(), bytes = 0;
    for (uintptr_t at = from; at < to;) {
      uintptr_t end = smaller(round_down(at, page_bytes) + page_bytes, to);
      if ((resident_pages_[(at - start_) / page_bytes] & 1) != 0) bytes += end - at;
      at = end;
    }
    return bytes;
  }
  size_t hole_bytes(const MapPart& part) const {
    size_t page_bytes = os::page_bytes(), bytes = 0;
    uintptr_t first = round_down(part.start, page_bytes);
    for (uint32_t holes = part.hole_pages; holes != 0; holes &= holes - 1) {
      uintptr_t page = first + static_cast<size_t>(__builtin_ctz(holes)) * page_bytes;
      if (page >= start_ && page < start_ + kRegionBytes &&
          (resident_pages_[(page - start_) / page_bytes] & 1) == 0)
        bytes += page_bytes;
    }
    return bytes;
  }

 private:
  static constexpr size_t kMinPageBytes = 4 * KiB;
  uintptr_t start_ = 0;
  unsigned char resident_pages_[kRegionBytes / kMinPageBytes + 1];
};

// The resident live bytes of a span of blocks, and the largest possible error of this number.
struct LiveEstimate {
  size_t bytes, uncertain_bytes;
};
LiveEstimate estimate_live(const MapPart& part, const ResidentPages& there) {
  size_t cut = size_t{part.carved} * part.block_bytes, taken = smaller(part.live_bytes, cut);
  size_t known_holes = there.hole_bytes(part);
  size_t missing =
      saturating_subtract(cut - there.bytes_of(part.start, part.start + cut), known_holes);
  if (missing == 0) return {taken, 0};
  size_t free = saturating_subtract(cut, taken + known_holes);
  size_t most = saturating_subtract(taken, saturating_subtract(missing, free)),
         least = saturating_subtract(taken, missing);
  double even =
      static_cast<double>(missing) * static_cast<double>(taken) / static_cast<double>(taken + free);
  size_t likely = saturating_subtract(taken, static_cast<size_t>(even));
  likely = likely < least ? least : likely > most ? most : likely;
  return {likely, likely - least > most - likely ? likely - least : most - likely};
}

// Sums over parts of one kind.
struct PartBytes {
  size_t counted, resident;

  void add(size_t of_books, size_t that_is_there) {
    counted += of_books;
    resident += that_is_there;
  }
};

// Sums over the queried chunks.
struct Sums {
  ResidentRatio taken;     // live blocks and blocks in lists
  ResidentRatio recorded;  // the part of `taken` that is sampled, in sampled spans
  ResidentRatio large;     // blocks of whole pages in regions
  ResidentRatio room;      // the rest of spans that have live blocks
  ResidentRatio idle;      // spans without live blocks, and free pages that the kernel may take
  ResidentRatio dirty;     // other free pages that have not been purged
  ResidentRatio unused;    // free pages that should not be backed by memory
  // Huge blocks, the reserves behind them, and cached memory of freed ones.
  ResidentRatio huge, reserve, kept;
  PartBytes classes[kClassCount];
  size_t uncertain_bytes;
  bool refused;
};

struct Memory {
  Sums sums;
  RegionMap region;
  ResidentPages there;
  pages::Extent extents[pages::HugeCache::kMaxExtents];
};

void add_region(Sums& sums, const RegionMap& region, const ResidentPages& there) {
  PartBytes taken{}, large{}, room{}, idle{}, dirty{}, unused{};
  for (unsigned i = 0; i < region.part_count; i++) {
    const MapPart& part = region.parts[i];
    size_t bytes = size_t{part.pages} << kPageShift,
           resident = there.bytes_of(part.start, part.start + bytes);
    if (part.kind == PartKind::kLarge) {
      large.add(bytes, resident);
    } else if (part.kind == PartKind::kPurged || part.kind == PartKind::kClean) {
      unused.add(bytes, resident);
    } else if (part.kind == PartKind::kDirty) {
      dirty.add(bytes, resident);
    } else if (part.live_bytes == 0) {
      idle.add(bytes, resident);
    } else {
      LiveEstimate live = estimate_live(part, there);
      taken.add(part.live_bytes, live.bytes);
      room.add(bytes - part.live_bytes, resident - live.bytes);
      sums.uncertain_bytes += live.uncertain_bytes;
      if (part.kind == PartKind::kSampled) {  // of several classes
        sums.recorded.add(part.live_bytes, live.bytes);
        continue;
      }
      sums.classes[class_of(part.block_bytes)].add(part.live_bytes, live.bytes);
    }
  }
  sums.taken.add(taken.counted, taken.resident);
  sums.large.add(large.counted, large.resident);
  sums.room.add(room.counted, room.resident);
  sums.idle.add(idle.counted, idle.resident);
  sums.dirty.add(dirty.counted, dirty.resident);
  sums.unused.add(unused.counted, unused.resident);
}

// Picks one in `every_` chunks, beginning at a random one.
class ChunkPicker {
 public:
  ChunkPicker(size_t chunks, size_t most)
      : every_(chunks <= most ? 1 : (chunks + most - 1) / most),
        left_(os::monotonic_ns() % every_) {}
  // Returns whether to query the next chunk.
  bool pick() {
    bool chosen = left_ == 0;
    left_ = chosen ? every_ - 1 : left_ - 1;
    return chosen;
  }
  size_t every() const { return every_; }
  // Memory that is in a few chunks only may have been missed altogether: with 95 % confidence it is
  // in at most three times as many chunks as one queried chunk represents (the rule of three).
  size_t missed_bytes_bound() const { return every_ == 1 ? 0 : 3 * every_ * kRegionBytes; }

 private:
  size_t every_, left_;
};

// The estimate for one part of the memory, and its variance.
class Estimate {
 public:
  Estimate(bool all, double* variance) : all_(all), variance_(variance) {}
  // `counted`: the bytes that the heap's counters report for all chunks.
  size_t of(const ResidentRatio& share, size_t counted, size_t chunks) {
    if (all_) return share.resident();
    *variance_ += share.variance(static_cast<double>(chunks));
    return share.of(counted);
  }

 private:
  bool all_;
  double* variance_;
};

// Queries memory outside of regions, all of one kind; `bytes` is its size by the heap's counters.
class ChunkQuery {
 public:
  ChunkQuery(Memory& memory, ResidentRatio& share, size_t bytes, unsigned most_chunks)
      : memory_(memory),
        share_(share),
        bytes_(bytes),
        chunks_((bytes + kRegionBytes - 1) / kRegionBytes),
        picker_(chunks_, most_chunks) {}
  void ask(uintptr_t start, size_t bytes) {
    for (size_t done = 0; done < bytes; done += kRegionBytes) {
      if (!picker_.pick()) continue;
      size_t chunk = smaller(bytes - done, kRegionBytes);
      if (!memory_.there.ask(start + done, chunk)) memory_.sums.refused = true;
      share_.add(chunk, memory_.there.bytes_of(start + done, start + done + chunk));
    }
  }
  size_t estimate(Residency* out) const {
    out->uncertain_bytes += picker_.missed_bytes_bound();
    return Estimate(picker_.every() == 1, &out->variance).of(share_, bytes_, chunks_);
  }

 private:
  Memory& memory_;
  ResidentRatio& share_;
  size_t bytes_, chunks_;
  ChunkPicker picker_;
};

// Blocks of the size classes. The resident fraction of a class's blocks, in lists or not, is taken
// to be that of its queried spans. If some blocks are in lists, it is unknown whether the missing
// pages belong to them or to live blocks: uncertain_bytes includes this error.
void add_class_blocks(const Statistics& s, const Sums& sums, Residency* out) {
  double live = 0, cached = 0;
  for (unsigned i = 0; i < kClassCount; i++) {
    const PartBytes& c = sums.classes[i];
    size_t recorded = smaller(sampled_blocks(i), s.classes[i].live),
           others = s.classes[i].live - recorded;
    double rate = c.counted != 0 ? static_cast<double>(c.resident) / static_cast<double>(c.counted)
                                 : sums.taken.rate();
    double bytes = kClasses[i].bytes;
    live += (static_cast<double>(others) * rate +
             static_cast<double>(recorded) * sums.recorded.rate()) *
            bytes;
    cached += static_cast<double>(s.classes[i].cached) * rate * bytes;
    out->uncertain_bytes +=
        smaller(s.classes[i].cached * kClasses[i].bytes,
                static_cast<size_t>((1 - rate) * static_cast<double>(others + s.classes[i].cached) *
                                    bytes));
  }
  out->live += static_cast<size_t>(live + 0.5);
  out->cached += static_cast<size_t>(cached + 0.5);
}

void add_regions(const Statistics& s, const Sums& sums, const ChunkPicker& picker, Residency* out) {
  pages::PageStatistics counters = pages::page_statistics();
  size_t taken = 0;
  for (unsigned i = 0; i < kClassCount; i++)
    taken += (s.classes[i].live + s.classes[i].cached) * kClasses[i].bytes;
  const SpanStatistics& spans = s.spans;
  Estimate estimate(picker.every() == 1, &out->variance);
  estimate.of(sums.taken, taken, counters.regions);  // for its variance
  add_class_blocks(s, sums, out);
  out->live += estimate.of(sums.large,
                           saturating_subtract(s.large_bytes, pages::huge_statistics().used_bytes),
                           counters.regions);
  out->fragmentation += estimate.of(
      sums.room,
      saturating_subtract(spans.owned_bytes + spans.central_bytes + spans.sampled_bytes, taken),
      counters.regions);
  out->cached +=
      estimate.of(sums.idle, spans.empty_bytes + spans.cached_large_bytes + counters.lazy_bytes,
                  counters.regions);
  out->dirty += estimate.of(sums.dirty, counters.dirty_bytes, counters.regions);
  out->unused += estimate.of(
      sums.unused,
      saturating_subtract(counters.mapped_bytes,
                          counters.used_bytes + counters.dirty_bytes + counters.lazy_bytes),
      counters.regions);
  out->uncertain_bytes += sums.uncertain_bytes * picker.every() + picker.missed_bytes_bound();
}

void query_regions(const Statistics& s, unsigned most_chunks, Memory& memory, Residency* out) {
  ChunkPicker picker(pages::region_count(), most_chunks);
  auto pick = [](void* p) { return static_cast<ChunkPicker*>(p)->pick(); };
  HeapMapWalk walk(0, UINTPTR_MAX, true, &memory.region);
  walk.set_filter(pick, &picker);
  while (walk.next()) {
    if (!memory.there.ask(memory.region.base, kRegionBytes)) memory.sums.refused = true;
    add_region(memory.sums, memory.region, memory.there);
  }
  add_regions(s, memory.sums, picker, out);
}

void query_huge_blocks(unsigned most_chunks, Memory& memory, Residency* out) {
  pages::HugeStatistics counters = pages::huge_statistics();
  size_t reserve_bytes = saturating_subtract(counters.memory_bytes, counters.used_bytes);
  struct Askers {
    ChunkQuery blocks, reserves;
  } askers{ChunkQuery(memory, memory.sums.huge, counters.used_bytes, most_chunks),
           ChunkQuery(memory, memory.sums.reserve, reserve_bytes, most_chunks)};
  pages::for_each_huge_memory(
      [](void* context, const pages::HugeMemory& huge) {
        Askers& all = *static_cast<Askers*>(context);
        all.blocks.ask(huge.start, huge.bytes);
        all.reserves.ask(huge.start + huge.bytes, huge.reserve_bytes);
      },
      &askers);
  out->live += askers.blocks.estimate(out);
  out->cached += askers.reserves.estimate(out);
}

void query_cached_huge(unsigned most_chunks, Memory& memory, Residency* out) {
  unsigned count = pages::copy_cached_extents(memory.extents);
  size_t bytes = 0;
  for (unsigned i = 0; i < count; i++) bytes += memory.extents[i].bytes;
  ChunkQuery asker(memory, memory.sums.kept, bytes, most_chunks);
  for (unsigned i = 0; i < count; i++) asker.ask(memory.extents[i].start, memory.extents[i].bytes);
  out->dirty += asker.estimate(out);
}

size_t all_of(const Residency& r) {
  return r.live + r.cached + r.dirty + r.unused + r.fragmentation;
}

// Called if there is no memory for the query: counts everything as resident.
Residency from_counters(const Statistics& s) {
  pages::PageStatistics regions = pages::page_statistics();
  Residency out{};
  out.live = s.live_bytes;
  out.cached = s.cached_bytes + s.spans.empty_bytes;
  out.dirty = regions.dirty_bytes + pages::huge_statistics().cached_bytes;
  out.fragmentation = saturating_subtract(s.free_bytes, s.spans.empty_bytes);
  out.uncertain_bytes = all_of(out);
  return out;
}

}  // namespace

Residency residency(const Statistics& s, unsigned most_chunks) {
  size_t bytes = round_up(sizeof(Memory), os::page_bytes());
  auto* memory = static_cast<Memory*>(os::map_report(bytes));
  if (memory == nullptr) return from_counters(s);
  Residency out{};
  query_regions(s, most_chunks, *memory, &out);
  query_huge_blocks(most_chunks, *memory, &out);
  query_cached_huge(most_chunks, *memory, &out);
  out.kernel_answered = !memory->sums.refused;
  if (!out.kernel_answered) out.uncertain_bytes = all_of(out);
  os::unmap_report(memory, bytes);
  return out;
}

}  // namespace seemalloc::heap
