// The heap map: the address space as it is, region by region and span by span, copied for whoever draws it.
//
// Who calls: core/api/heap_map_json.cc, when somebody asks. Threads: any; each region is copied under its shard's lock, which is held for
// some microseconds and let go before the next. So each region is as it was at some moment, not all of them at the same one.
// Counts of blocks that others are freeing are hints.
// Invariant: the parts of a region cover each of its pages once, in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/homes.h"
#include "core/pages/region_walk.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

// What a part of a region is: a span, or free pages that are alike.
enum class PartKind : uint8_t {
  kSmall,    // a span of blocks of one class
  kSampled,  // the same, of blocks that are all recorded
  kLarge,    // one block
  kKept,     // the span of a freed large block, kept by a thread
  kTaken,    // about to be handed out, or on its way to the system
  kDirty,    // free, with memory behind it
  kLazy,     // free, left to the kernel to take
  kPurged,   // free, given back lately
  kClean,    // free, without memory: never used, or given back longer ago
};

struct MapPart {
  uint16_t first_page, pages;
  PartKind kind;
  pages::SpanState state;  // kSmall: also whether a thread owns it
  bool owned;
  uint32_t block_bytes;  // kSmall, kSampled
  uint32_t capacity;     // blocks that fit
  uint32_t carved;       // of them, those that have been cut
  uint32_t live;         // blocks that the program has, or that threads have at hand
  size_t live_bytes;     // what they are: in a span of sampled blocks by the classes that they were allocated as
  uint32_t returned;     // of them, those that other threads have freed and the owner has not taken in
  uint32_t hole_pages;   // OS pages given back, a bit each, from the first that the span touches
  bool waits;            // nobody's, with free blocks
  uint32_t since;        // waits: the period in which that began (holes.h)
  HomeId home;           // kSmall: of sampled blocks that would lie in it
  uint32_t sample_id;    // kLarge, when it is sampled
  uintptr_t start;
};

struct RegionMap {
  uintptr_t base;
  uint16_t shard;
  bool huge;     // lies on one huge page
  bool resting;  // dense, and what is free of it stays
  // Pages by what they are; they add up to all.
  uint16_t used, taken, dirty, lazy, purged, clean;
  uint16_t spans;
  // Of spans. Bytes of blocks that are free, without those whose pages are holes, and with the ends that have not been cut.
  size_t live_bytes, free_bytes, hole_bytes;
  uint32_t most_block_bytes;  // of the class that has most pages; 0: large blocks
  unsigned part_count;
  MapPart parts[kPagesPerRegion];
};

// One region at a time, in no order.
class HeapMapWalk {
 public:
  // Regions that begin in [from, to). `with_parts`: fills in parts, else only the sums.
  HeapMapWalk(uintptr_t from, uintptr_t to, bool with_parts, RegionMap* out)
      : from_(from), to_(to), with_parts_(with_parts), out_(out) {}
  // Leaves out the regions for which `chosen` is false. It is called under a lock: it allocates nothing and makes no system call.
  void choose(bool (*chosen)(void* context), void* context) {
    chosen_ = chosen;
    context_ = context;
  }
  // False at the end. Takes and lets go one lock for each region that it passes.
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

// A huge block in use.
struct HugePart {
  uintptr_t start;
  size_t bytes;
  size_t room;  // behind it, to grow into
  uint32_t sample_id;
};
// Calls f for those that begin in [from, to), under a lock: f allocates nothing and makes no system call.
void for_each_huge_part(uintptr_t from, uintptr_t to, void (*f)(void* context, const HugePart& part), void* context);

}  // namespace seemalloc::heap
