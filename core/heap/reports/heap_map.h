// The heap map: a copy of the address space, region by region and span by span, for the code that
// draws it.
//
// Caller: core/api/service/heap_map_json.cc, on request. Threads: any. Each region is copied under
// its shard's lock, which is held for some microseconds and released before the next. So each
// region is as it was at some moment, but not all at the same moment. Counts of blocks that other
// threads are freeing are hints.
// Invariant: the parts of a region cover each of its pages once, in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/spans/homes.h"
#include "core/pages/span/region_walk.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// The kind of a part of a region: a span, or free pages in the same state.
enum class PartKind : uint8_t {
  kSmall,    // a span of blocks of one class
  kSampled,  // the same, with sampled blocks
  kLarge,    // one block
  kKept,     // the span of a freed large block, cached by a thread
  kTaken,    // about to be allocated, or being purged
  kDirty,    // free, with memory behind it
  kLazy,     // free, and the kernel may take the memory
  kPurged,   // free, purged lately
  kClean,    // free, without memory: never used, or purged longer ago
};

struct MapPart {
  uint16_t first_page, pages;
  PartKind kind;
  pages::SpanState state;  // kSmall; see also `owned`
  bool owned;
  uint32_t block_bytes;  // kSmall, kSampled
  uint32_t capacity;     // blocks that fit
  uint32_t carved;       // blocks that have been carved
  uint32_t live;         // live blocks, and blocks in threads' lists
  // Bytes of `live`; in a span of sampled blocks by the classes that they were allocated as.
  size_t live_bytes;
  // The part of `live` that other threads have freed and the owner has not taken over yet.
  uint32_t returned;
  uint32_t hole_pages;  // purged OS pages, one bit each, from the first that the span touches
  bool is_waiting;      // unowned, with free blocks
  uint32_t since;       // if `is_waiting`: the period in which that began (holes.h)
  HomeId home;          // kSmall: home of sampled blocks that would be in it
  uint32_t sample_id;   // kLarge, if it is sampled
  uintptr_t start;
};

struct RegionMap {
  uintptr_t base;
  uint16_t shard;
  bool on_huge_page;  // on one huge page
  bool resting;       // dense; its free pages are not purged
  // Numbers of pages by kind; their sum is all pages.
  uint16_t used, taken, dirty, lazy, purged, clean;
  uint16_t spans;
  // Bytes of spans. free_bytes leaves out blocks whose pages are holes and includes uncarved ends.
  size_t live_bytes, free_bytes, hole_bytes;
  uint32_t main_class_bytes;  // block size of the class with the most pages; 0: large blocks
  unsigned part_count;
  MapPart parts[kPagesPerRegion];
};

// Visits one region at a time, in no particular order.
class HeapMapWalk {
 public:
  // Visits regions that begin in [from, to). `with_parts`: fills in the parts too, not only the
  // sums.
  HeapMapWalk(uintptr_t from, uintptr_t to, bool with_parts, RegionMap* out)
      : from_(from), to_(to), with_parts_(with_parts), out_(out) {}
  // Skips the regions for which `chosen` returns false. It is called under a lock: it must not
  // allocate or make system calls.
  void set_filter(bool (*chosen)(void* context), void* context) {
    chosen_ = chosen;
    context_ = context;
  }
  // Returns false at the end. Takes and releases one lock for each region that it passes.
  bool next();

 private:
  static void copy(void* context, const pages::Region& region);

  pages::RegionWalk walk_;
  uintptr_t from_, to_;
  bool with_parts_;
  bool found_ = false;
  RegionMap* out_;
  bool (*chosen_)(void* context) = nullptr;
  void* context_ = nullptr;
};

// A live huge block.
struct HugePart {
  uintptr_t start;
  size_t bytes;
  size_t room;  // reserved addresses behind it, into which it can grow
  uint32_t sample_id;
};
// Calls f for the blocks that begin in [from, to), under a lock: f must not allocate or make system
// calls.
void for_each_huge_part(uintptr_t from, uintptr_t to,
                        void (*f)(void* context, const HugePart& part), void* context);

}  // namespace seemalloc::heap
