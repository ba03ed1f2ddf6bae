// glibc's views of the heap: malloc_trim, malloc_stats, malloc_info, mallinfo, mallinfo2, mallopt. They tell the truth
// where their words have a meaning here; fields of ptmalloc's own (fastbins, top) are 0.
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "core/api/other_names.h"
#include "core/api/report.h"
#include "core/base/compiler.h"
#include "core/heap/housekeeping.h"
#include "core/heap/statistics.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"
#include "core/pages/huge.h"
#include "core/pages/page_heap.h"

using namespace seemalloc;

SEEMALLOC_EXPORT int malloc_trim(size_t) noexcept {
  heap::ThreadHeap* mine = heap::thread_cache.heap;
  if (mine != nullptr) heap::collect(*mine, true);
  return heap::purge_all() != 0;
}

namespace seemalloc {

struct mallinfo2 heap_info() {
  heap::Statistics s = heap::statistics();
  pages::PageStatistics regions = pages::page_statistics(false);
  pages::HugeStatistics huge = pages::huge_statistics(false);
  struct mallinfo2 info {};
  info.arena = regions.mapped_bytes;                          // bytes not in mappings of their own
  info.hblks = huge.spans;                                    // blocks with a mapping of their own
  info.hblkhd = huge.used_bytes;
  // Counted one after the other while other threads go on: a difference may come out below zero.
  info.uordblks = minus(s.live_bytes, huge.used_bytes);       // in use
  info.fordblks = minus(regions.mapped_bytes, info.uordblks);  // not in use
  info.ordblks = s.large_spans;
  for (const heap::ClassStatistics& c : s.classes) info.ordblks += c.cached + c.free;
  info.keepcost = regions.dirty_bytes;                        // what malloc_trim would give back
  return info;
}

namespace {
int as_int(size_t n) { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }
}  // namespace

struct mallinfo heap_info_in_int() {
  struct mallinfo2 wide = heap_info();
  struct mallinfo info {};
  info.arena = as_int(wide.arena);
  info.ordblks = as_int(wide.ordblks);
  info.hblks = as_int(wide.hblks);
  info.hblkhd = as_int(wide.hblkhd);
  info.uordblks = as_int(wide.uordblks);
  info.fordblks = as_int(wide.fordblks);
  info.keepcost = as_int(wide.keepcost);
  return info;
}

}  // namespace seemalloc

SEEMALLOC_EXPORT struct mallinfo2 mallinfo2(void) noexcept { return heap_info(); }
SEEMALLOC_EXPORT struct mallinfo mallinfo(void) noexcept { return heap_info_in_int(); }
SEEMALLOC_EXPORT void malloc_stats(void) noexcept { print_statistics(); }

SEEMALLOC_EXPORT int malloc_info(int options, FILE* file) noexcept {
  if (options != 0) return EINVAL;
  heap::Statistics s = heap::statistics();
  MemoryReport r = memory_report(s, true);
  // One write: the stream's own buffer may come from us.
  FixedText<8 * KiB> text;
  text << "<malloc version=\"1\">\n<allocator name=\"seemalloc\" version=\"" SEEMALLOC_VERSION "\"/>\n<sizes>\n";
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    const heap::ClassStatistics& c = s.classes[i];
    if (c.spans == 0) continue;
    text << "<size to=\"" << uint64_t{heap::kClasses[i].bytes} << "\" live=\"" << uint64_t{c.live} << "\" cached=\""
         << uint64_t{c.cached} << "\" free=\"" << uint64_t{c.free} << "\" spans=\"" << uint64_t{c.spans} << "\"/>\n";
  }
  text << "</sizes>\n<large count=\"" << uint64_t{s.large_spans} << "\" size=\"" << uint64_t{s.large_bytes} << "\"/>\n";
  auto row = [&text](const char* type, size_t bytes) {
    text << "<memory type=\"" << type << "\" size=\"" << uint64_t{bytes} << "\"/>\n";
  };
  row("resident", r.rss);
  row("live", r.live);
  row("cached", r.cached);
  row("fragmentation", r.fragmentation);
  row("metadata", r.metadata);
  row("not_ours", r.not_ours);
  row("allocated", r.live_allocated);
  row("mapped", r.mapped);
  text << "</malloc>\n";
  return fwrite(text.c_str(), 1, text.size(), file) == text.size() ? 0 : errno;
}

// ptmalloc's knobs (arenas, mmap thresholds, trimming) have no counterpart: what glibc would take is accepted and does
// nothing. Our own options are set by name: seemalloc_option_set().
int seemalloc::accept_mallopt(int parameter, int value) {
  constexpr int kLargestFastBlock = 80 * sizeof(size_t) / 4;
  constexpr int kLargestMmapThreshold = 32 * MiB;
  switch (parameter) {
    case M_MXFAST:
      return value >= 0 && value <= kLargestFastBlock;
    case M_MMAP_THRESHOLD:
      return value <= kLargestMmapThreshold;
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return value > 0;
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
      return 1;
    default:
      return 1;  // as glibc does with parameters it does not know
  }
}

SEEMALLOC_EXPORT int mallopt(int parameter, int value) noexcept { return accept_mallopt(parameter, value); }
