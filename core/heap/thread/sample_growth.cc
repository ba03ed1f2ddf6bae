#include "core/heap/thread/sample_growth.h"

#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {

constinit GrowthWatch growth_watch;

bool GrowthWatch::check(size_t bytes_in_spans) {
  size_t most = max_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes_in_spans < most + step_bytes(most)) return false;
  } while (!max_bytes_.compare_exchange_weak(most, bytes_in_spans, std::memory_order_relaxed));
  times_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void GrowthWatch::tick(size_t bytes_in_spans) {
  size_t most = max_bytes_.load(std::memory_order_relaxed);
  if (bytes_in_spans >= most) return;
  // If another thread raises it at the same time, that value stays.
  max_bytes_.compare_exchange_strong(most, most - (most - bytes_in_spans + 1) / 2,
                                     std::memory_order_relaxed);
}

bool must_draw_without_backoff(ThreadHeap& heap, size_t bytes_in_spans) {
  growth_watch.check(bytes_in_spans);
  HeapBody& body = *heap.body;
  uint32_t times = growth_watch.times();
  if (body.growth_steps_seen != times) {
    bool is_start = body.growth_steps_seen == 0;
    body.growth_steps_seen = times;
    body.no_backoff_until =
        heap.allocated_bytes + (is_start ? 1 : kIntervalsOfGrowth) * heap.sample_base;
  }
  return heap.allocated_bytes < body.no_backoff_until;
}

void check_heap_growth_slow() {
  if (growth_watch.check(pages::bytes_in_spans())) redraw_backed_off_samples();
}

}  // namespace seemalloc::heap
