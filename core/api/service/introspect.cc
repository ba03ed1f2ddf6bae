// glibc's views of the heap: malloc_trim, malloc_stats, malloc_info, mallinfo, mallinfo2, mallopt.
// Fields that have a meaning here are exact; fields specific to ptmalloc (fastbins, top) are 0.
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "core/api/malloc/alternative_names.h"
#include "core/api/service/report.h"
#include "core/base/compiler.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/region_count.h"

using namespace seemalloc;

SEEMALLOC_EXPORT int malloc_trim(size_t) noexcept {
  heap::ThreadHeap* mine = heap::thread_cache.heap;
  if (mine != nullptr) heap::collect(*mine, true);
  return heap::purge_all() != 0;
}

namespace seemalloc {

struct mallinfo2 mallinfo2_figures() {
  return mallinfo2_figures(heap::statistics());
}

struct mallinfo2 mallinfo2_figures(const heap::Statistics& s) {
  pages::PageStatistics regions = pages::page_statistics();
  pages::HugeStatistics huge = pages::huge_statistics();
  struct mallinfo2 info {};
  info.arena = regions.mapped_bytes;  // bytes not in separate mappings
  info.hblks = huge.spans;            // blocks with a separate mapping
  info.hblkhd = huge.used_bytes;
  // Counted one after the other while other threads run: a difference may come out below zero.
  info.uordblks = saturating_subtract(s.live_bytes, huge.used_bytes);        // in use
  info.fordblks = saturating_subtract(regions.mapped_bytes, info.uordblks);  // not in use
  for (const heap::ClassStatistics& c : s.classes) info.ordblks += c.cached + c.free;
  // Free pages count as one block, as glibc's top does.
  info.ordblks += regions.used_bytes < regions.mapped_bytes;
  info.keepcost = regions.dirty_bytes;  // the bytes that malloc_trim would return
  return info;
}

namespace {
int as_int(size_t n) { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }
}  // namespace

struct mallinfo heap_info_in_int() {
  struct mallinfo2 wide = mallinfo2_figures();
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

SEEMALLOC_EXPORT struct mallinfo2 mallinfo2(void) noexcept { return mallinfo2_figures(); }
SEEMALLOC_EXPORT struct mallinfo mallinfo(void) noexcept { return heap_info_in_int(); }
SEEMALLOC_EXPORT void malloc_stats(void) noexcept { print_statistics(); }

namespace {

void put(Text& out, const char* name, uint64_t value) {
  out << " " << name << "=\"" << value << "\"";
}

// glibc's element: free blocks by size. seemalloc's own attributes follow glibc's.
void write_size(Text& out, unsigned size_class, const heap::ClassStatistics& c) {
  uint64_t below = size_class == 0 ? 0 : heap::kClasses[size_class - 1].bytes,
           bytes = heap::kClasses[size_class].bytes;
  uint64_t count = c.cached + c.free;
  out << "  <size";
  put(out, "from", below + 1);
  put(out, "to", bytes);
  put(out, "total", count * bytes);
  put(out, "count", count);
  put(out, "live", c.live);
  put(out, "cached", c.cached);
  put(out, "free", c.free);
  put(out, "spans", c.spans);
  out << "/>\n";
}

void write_total(Text& out, const char* type, uint64_t count, uint64_t bytes) {
  out << "<total type=\"" << type << "\"";
  put(out, "count", count);
  put(out, "size", bytes);
  out << "/>\n";
}

void write_row(Text& out, const char* element, const char* type, uint64_t bytes) {
  out << "<" << element << " type=\"" << type << "\"";
  put(out, "size", bytes);
  out << "/>\n";
}

void write_regions(Text& out, const struct mallinfo2& info) {
  size_t most = size_t{pages::max_region_count()} * kRegionBytes;
  write_row(out, "system", "current", info.arena);
  write_row(out, "system", "max", info.arena > most ? info.arena : most);
  write_row(out, "aspace", "total", info.arena);
  write_row(out, "aspace", "mprotect", info.arena);
}

// The same elements as glibc's, with one heap: scripts read them. Elements of our own are added.
void write_info(Text& out) {
  heap::Statistics s = heap::statistics();
  MemoryReport r = memory_report(s, true);
  struct mallinfo2 info = mallinfo2_figures(s);
  out << "<malloc version=\"1\">\n<allocator name=\"seemalloc\" version=\"" SEEMALLOC_VERSION
         "\"/>\n<heap nr=\"0\">\n<sizes>\n";
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    if (s.classes[i].spans != 0 || s.classes[i].live != 0) write_size(out, i, s.classes[i]);
  }
  out << "</sizes>\n";
  write_total(out, "fast", 0, 0);
  write_total(out, "rest", info.ordblks, info.fordblks);
  write_regions(out, info);
  out << "</heap>\n";
  write_total(out, "fast", 0, 0);
  write_total(out, "rest", info.ordblks, info.fordblks);
  write_total(out, "mmap", info.hblks, info.hblkhd);
  write_regions(out, info);
  out << "<large";
  put(out, "count", s.large_spans);
  put(out, "size", s.large_bytes);
  out << "/>\n";
  const struct {
    const char* type;
    size_t bytes;
  } kMemory[] = {{"resident", r.rss},
                 {"live", r.live},
                 {"cached", r.cached},
                 {"fragmentation", r.fragmentation},
                 {"metadata", r.metadata},
                 {"not_ours", r.not_ours},
                 {"allocated", r.live_allocated},
                 {"mapped", r.mapped}};
  for (const auto& row : kMemory) write_row(out, "memory", row.type, row.bytes);
  out << "</malloc>\n";
}

}  // namespace

SEEMALLOC_EXPORT int malloc_info(int options, FILE* file) noexcept {
  if (options != 0) return EINVAL;
  // One write: the stream's own buffer may be allocated by us.
  FixedText<16 * KiB> text;
  write_info(text);
  return fwrite(text.c_str(), 1, text.size(), file) == text.size() ? 0 : errno;
}

// ptmalloc's parameters (arenas, mmap thresholds, trimming) have no counterpart: values that glibc
// would accept are accepted and have no effect. seemalloc's options are set by name:
// seemalloc_option_set().
int seemalloc::check_mallopt(int parameter, int value) {
  constexpr int kLargestFastBlock = 80 * sizeof(size_t) / 4;
  constexpr int kLargestMmapThreshold = 32 * MiB;
  switch (parameter) {
    case M_MXFAST: return value >= 0 && value <= kLargestFastBlock;
    case M_MMAP_THRESHOLD: return value <= kLargestMmapThreshold;
    case M_ARENA_TEST:
    case M_ARENA_MAX: return value > 0;
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB: return 1;
    default: return 1;  // as glibc does with unknown parameters
  }
}

SEEMALLOC_EXPORT int mallopt(int parameter, int value) noexcept {
  return check_mallopt(parameter, value);
}
