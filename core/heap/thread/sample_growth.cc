#include "core/heap/thread/sample_growth.h"

#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {

constinit GrowthWatch growth_watch;

bool GrowthWatch::look(size_t bytes_in_spans) {
  size_t most = most_.load(std::memory_order_relaxed);
  do {
    if (bytes_in_spans < most + step_bytes(most)) return false;
  } while (!most_.compare_exchange_weak(most, bytes_in_spans, std::memory_order_relaxed));
  times_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void GrowthWatch::tick(size_t bytes_in_spans) {
  size_t most = most_.load(std::memory_order_relaxed);
  if (bytes_in_spans >= most) return;
  // If another thread raises it at the same time, that value stays.
  most_.compare_exchange_strong(most, most - (most - bytes_in_spans + 1) / 2,
                                std::memory_order_relaxed);
}

bool follows_growth(ThreadHeap& heap, size_t bytes_in_spans) {
  growth_watch.look(bytes_in_spans);
  HeapBody& body = *heap.body;
  uint32_t times = growth_watch.times();
  if (body.growths_seen != times) {
    bool is_start = body.growths_seen == 0;
    body.growths_seen = times;
    body.as_asked_until =
        heap.handed_out_bytes + (is_start ? 1 : kIntervalsOfGrowth) * heap.sample_base;
  }
  return heap.handed_out_bytes < body.as_asked_until;
}

void look_for_growth_slow() {
  if (growth_watch.look(pages::bytes_in_spans())) redraw_stretched_samples();
}

}  // namespace seemalloc::heap
