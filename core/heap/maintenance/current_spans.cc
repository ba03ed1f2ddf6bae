#include "core/heap/maintenance/current_spans.h"

#include "core/base/check.h"
#include "core/heap/maintenance/orphaned_heaps.h"
#include "core/heap/spans/current_span_protocol.h"
#include "core/heap/spans/span_holes.h"
#include "core/os/kernel/real_machine.h"

namespace seemalloc::heap {

namespace {

// A hash that changes with every malloc of the class and every free into its current span. A rare
// collision does no harm. Never 0.
uint32_t use_hash(const Span* span, const Block* list) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  uint64_t use = reinterpret_cast<uintptr_t>(list) * kMix ^
                 reinterpret_cast<uintptr_t>(span->free_list_acquire());
  use = (use ^ span->live_acquire()) * kMix;
  return static_cast<uint32_t>(use >> 32) | 1;
}

// Returns true if the class has not been used since the last check, and for long enough. Requires:
// slow_lock.
bool is_unused(ClassState& cs, const Block* list, uint32_t least_periods) {
  DCHECK(cs.current->state == pages::SpanState::kCurrent);
  uint32_t use = use_hash(cs.current, list);
  if (use != cs.last_use_hash) {
    cs.last_use_hash = use;
    cs.current->hole_scan.since = hole_epoch.load(std::memory_order_relaxed);
    return least_periods <= 1;
  }
  return has_waited(cs.current, least_periods) || least_periods <= 1;
}

// True if another thread works on the lists of a heap that is between two threads but not abandoned
// (kAbandoned); it does so in part without the lock.
bool is_being_transferred(const ThreadHeap& heap) {
  return heap.cache.load(std::memory_order_relaxed) == &heap.body->saved_lists &&
         heap.state.load(std::memory_order_relaxed) != HeapState::kAbandoned;
}

// Returns one bit per class. Requires: slow_lock.
uint64_t unused_classes(ThreadHeap& heap, uint32_t least_periods) {
  DCHECK(heap.slow_lock.is_held());
  Block* lists[kClassCount];
  if (is_being_transferred(heap) || !copy_free_lists(heap, lists)) return 0;
  uint64_t classes = 0;
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    if (cs.current == nullptr) continue;
    const Block* list = lists[c];
    if (is_unused(cs, list, least_periods) && list != nullptr && may_have_holes(cs.current))
      classes |= uint64_t{1} << c;
  }
  return classes;
}

}  // namespace

uint64_t begin_detach_unused(ThreadHeap& heap, uint32_t least_periods) {
  return close_local_refills<os::RealMachine>(heap,
                                              [&] { return unused_classes(heap, least_periods); });
}

Span* detach_current(ThreadHeap& heap, unsigned size_class) {
  auto list_head = [&]() -> const Block* {
    Block* list = nullptr;
    bool copied = !is_being_transferred(heap) && copy_free_list(heap, size_class, &list);
    return copied ? list : nullptr;
  };
  auto is_still_unused = [&](const Span* span, const Block* list) {
    DCHECK(span->state == pages::SpanState::kCurrent && span->owner() == &heap &&
           span->size_class == size_class);
    ClassState& cs = heap.body->classes[size_class];
    if (use_hash(span, list) != cs.last_use_hash) return false;
    cs.last_use_hash = 0;
    return true;
  };
  return take_closed_span<Span>(heap, size_class, list_head, is_still_unused);
}

}  // namespace seemalloc::heap
