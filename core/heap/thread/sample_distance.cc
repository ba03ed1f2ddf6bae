#include "core/heap/thread/sample_distance.h"

namespace seemalloc::heap {

namespace {
void never_sample(ThreadHeap& heap, Draw) { heap.sample_at = UINT64_MAX; }
}  // namespace

void (*draw_sample_distance)(ThreadHeap& heap, Draw reason) = never_sample;

namespace {
constexpr uint64_t kOptionChange = uint64_t{1} << 32;
}
std::atomic<uint64_t> sample_changes{kOptionChange};
std::atomic<bool> sample_distances_stretched{false};

void redraw_sample(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  if (changes / kOptionChange == heap.sample_changes / kOptionChange) return;
  heap.sample_changes = changes;
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    if (cs.sample_due != 0) count_returned_unused(kClasses[c].bytes);
    cs.sample_due = 0;
  }
  draw_sample_distance(heap, Draw::kNewInterval);
}

void relax_sample(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  // redraw_sample does it.
  if (changes / kOptionChange != heap.sample_changes / kOptionChange) return;
  heap.sample_changes = changes;
  draw_sample_distance(heap, Draw::kTimePassed);
}

void invalidate_sample_distances() {
  sample_changes.fetch_add(kOptionChange, std::memory_order_relaxed);
}

void redraw_stretched_samples() {
  if (sample_distances_stretched.exchange(false, std::memory_order_relaxed))
    sample_changes.fetch_add(1, std::memory_order_relaxed);
}

bool large_sample_due(ThreadHeap& heap, size_t bytes) {
  redraw_if_stale(heap);
  relax_if_due(heap);
  heap.handed_out_bytes += bytes;
  if (SEEMALLOC_LIKELY(heap.handed_out_bytes < heap.sample_at)) return false;
  heap.due_interval = heap.sample_base << heap.sample_stretch;
  draw_sample_distance(heap, Draw::kSampled);
  return true;
}

bool has_older_lists(const ThreadHeap& heap) {
  return heap.body->lists_since / kOptionChange !=
         sample_changes.load(std::memory_order_relaxed) / kOptionChange;
}

}  // namespace seemalloc::heap
