#include "core/pages/span/region_count.h"

#include <atomic>

#include "core/base/check.h"

namespace seemalloc::pages {

namespace {
std::atomic<unsigned> regions{0}, max_regions{0};
}  // namespace

unsigned region_count() { return regions.load(std::memory_order_relaxed); }
unsigned max_region_count() { return max_regions.load(std::memory_order_relaxed); }

void count_mapped_region() {
  unsigned now = regions.fetch_add(1, std::memory_order_relaxed) + 1;
  for (unsigned most = max_regions.load(std::memory_order_relaxed); now > most;) {
    if (max_regions.compare_exchange_weak(most, now, std::memory_order_relaxed)) break;
  }
}

void count_unmapped_region() {
  unsigned before = regions.fetch_sub(1, std::memory_order_relaxed);
  DCHECK(before != 0);
}

}  // namespace seemalloc::pages
