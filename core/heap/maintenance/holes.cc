#include "core/heap/maintenance/holes.h"

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/heap/maintenance/current_spans.h"
#include "core/heap/maintenance/hole_search.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/owned_spans.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/helper_link.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/wait.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/policy/purge_delay.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::heap {

using pages::SpanState;

namespace {

// A span that became available at any time within a period has waited for two whole periods after
// the third has begun.
constexpr uint32_t kPeriodsToWait = 3;
constexpr uint64_t kMinPeriodNs = 125 * kMillisecondNs;
constexpr uint64_t kMaxPeriodNs = 8 * kSecondNs;  // when doubled
// The length of a slice: of the helper thread, and of a thread of the program if there is no
// helper. A rest of kRestNs follows, or a much longer one while the program works (PurgeBudget).
constexpr uint64_t kSliceNs = 5 * kMillisecondNs;
constexpr uint64_t kShortSliceNs = 500 * kMicrosecondNs;
constexpr uint64_t kRestNs = 15 * kMillisecondNs;
// Smaller heaps are left alone.
constexpr unsigned kMinRegions = 2;

// The times at which the last periods began, by number. The slot of the oldest one is also that of
// the next one, which may be about to begin.
constexpr uint32_t kEpochSlots = 64, kRememberedEpochs = kEpochSlots - 1;
std::atomic<uint64_t> began_ns[kEpochSlots];

void begin_epoch() {
  uint32_t epoch = hole_epoch.load(std::memory_order_relaxed) + 1;
  began_ns[epoch % kEpochSlots].store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  hole_epoch.store(epoch, std::memory_order_release);  // pairs with ns_since_hole_epoch()
}

std::atomic<uint64_t> spans_with_holes{0}, purged_bytes{0}, current_spans{0};

// The purging thread, identified by the address of its thread_cache. Null if no thread purges.
std::atomic<const void*> purger{nullptr};

bool become_purger() {
  const void* none = nullptr;
  return purger.compare_exchange_strong(none, &thread_cache, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}
void release_purger() {
  DCHECK(purger.load(std::memory_order_relaxed) == &thread_cache);
  purger.store(nullptr, std::memory_order_release);
}

// Returns the bytes purged. Sets *refused if the kernel did not purge all of them.
size_t purge_pages(const Span* span, uint32_t pages, bool* refused) {
  DCHECK(pages != 0 && span->state == SpanState::kDetached);
  os::ScopedCallSizeClass label(span->size_class);
  bool splits = pages::begin_huge_page_split(span);
  size_t bytes = 0;
  while (pages != 0) {
    unsigned first = lowest_page(pages);
    uint64_t rest = ~(uint64_t{pages} >> first);
    unsigned count = static_cast<unsigned>(__builtin_ctzll(rest));
    pages &= ~(static_cast<uint32_t>((uint64_t{1} << count) - 1) << first);
    void* start = reinterpret_cast<void*>(address_of_page(span, first));
    size_t length = count * os::page_bytes();
    if (splits) os::split_huge_page(start, length);
    if (os::purge(start, length, os::Reason::kHole)) {
      bytes += length;
    } else {
      *refused = true;
    }
  }
  return bytes;
}

// ---- one pass over all spans that wait ----

// Where a pass continues. Heaps are never removed, and new ones come in front.
struct ScanPosition {
  ThreadHeap* heap;  // null: spans without an owner are next
  unsigned size_class;
};
ScanPosition first_position() { return ScanPosition{all_heaps(), 0}; }

struct Pass {
  uint32_t least_periods;
  uint64_t end_ns;
  ScanPosition place;
  size_t bytes = 0;
  bool refused = false;

  bool over() const { return refused || os::monotonic_ns() >= end_ns; }
};

// Steps 2 to 4 for a span of a heap, or an unowned one. L is the lock under which other threads
// change its counts.
template <typename L>
void purge_detached(Span* span, L& lock, Pass& pass) {
  DCHECK(span->state == SpanState::kDetached &&
         detached_span.load(std::memory_order_relaxed) == span);
  DCHECK(purger.load(std::memory_order_relaxed) == &thread_cache);
  uint32_t pages = hole_search::make_holes(span, lock);
  if (pages == 0) return;
  size_t bytes = purge_pages(span, pages, &pass.refused);
  pass.bytes += bytes;
  purged_bytes.fetch_add(bytes, std::memory_order_relaxed);
  spans_with_holes.fetch_add(1, std::memory_order_relaxed);
}

// Returns null if no span qualifies. Sets *more if it stopped because it has checked
// kMaxSpansPerScan spans.
Span* detach_from(ClassState& cs, uint32_t least_periods, bool* more) {
  *more = false;
  for (unsigned i = 0; i < kMaxSpansPerScan; i++) {
    Span* span = cs.available.front();  // the span that has been there longest
    if (span == nullptr || !has_waited(span, least_periods)) return nullptr;
    cs.available.remove(span);
    if (may_have_holes(span) || span->is_empty_acquire()) {
      if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
      note_detached(span);
      return span;
    }
    span->hole_scan.since = hole_epoch.load(std::memory_order_relaxed);
    cs.available.push_back(span);
  }
  *more = true;
  return nullptr;
}

// Does the same for the heap's classes from *size_class on.
Span* detach_owned(ThreadHeap& heap, unsigned* size_class, uint32_t least_periods, bool* more) {
  *more = false;
  if (!heap.slow_lock.try_lock()) return nullptr;  // busy: try again in a later pass
  Span* span = nullptr;
  for (; *size_class < kClassCount; ++*size_class) {
    span = detach_from(heap.body->classes[*size_class], least_periods, more);
    if (span != nullptr || *more) break;
  }
  DCHECK(span == nullptr || (span->owner() == &heap && span->size_class == *size_class));
  if (span != nullptr) heap.detached_spans++;
  heap.slow_lock.unlock();
  return span;
}

// Step 5. The countdown belongs to the owner and has gone on meanwhile.
void reattach_owned(ThreadHeap& heap, Span* span) {
  {
    LockGuard guard(heap.slow_lock);
    DCHECK(heap.detached_spans != 0 && span->state == SpanState::kDetached);
    DCHECK(span->owner() == &heap);
    heap.detached_spans--;
    forget_detached();
    ClassState& cs = heap.body->classes[span->size_class];
    span->state = SpanState::kAvailable;
    span->hole_scan.since = hole_epoch.load(std::memory_order_relaxed);
    note_scanned(span);
    if (span->is_empty_acquire()) {
      // Even the last one of the class: it has waited, or a purge of everything was requested.
      release_empty_span(span);
    } else {
      cs.available.push_back(span);
    }
  }
  if (heap.state.load(std::memory_order_seq_cst) == HeapState::kZombie) drain_zombie(heap);
}

// Returns false if time is up before the end.
bool purge_current_spans(ThreadHeap& heap, Pass& pass) {
  for (uint64_t classes = begin_detach_unused(heap, pass.least_periods); classes != 0;
       classes &= classes - 1) {
    if (pass.over()) return false;
    Span* span = detach_current(heap, static_cast<unsigned>(__builtin_ctzll(classes)));
    if (span == nullptr) continue;
    current_spans.fetch_add(1, std::memory_order_relaxed);
    purge_detached(span, heap.slow_lock, pass);
    reattach_owned(heap, span);
  }
  return true;
}

// Returns false if time is up before the end.
bool purge_heap(ThreadHeap& heap, Pass& pass) {
  if (heap.state.load(std::memory_order_relaxed) == HeapState::kZombie) return true;
  if (!purge_current_spans(heap, pass)) return false;
  for (bool more = true; more;) {
    if (pass.over()) return false;
    Span* span = detach_owned(heap, &pass.place.size_class, pass.least_periods, &more);
    if (span == nullptr) continue;
    purge_detached(span, heap.slow_lock, pass);
    reattach_owned(heap, span);
    more = true;
  }
  return true;
}

bool purge_unowned(Pass& pass) {
  while (pass.place.size_class < kClassCount) {
    if (pass.over()) return false;
    bool more = false;
    Span* span = central_detach(pass.place.size_class, pass.least_periods, &more);
    DCHECK(span == nullptr || span->size_class == pass.place.size_class);
    if (span != nullptr) {
      purge_detached(span, central_lock(pass.place.size_class), pass);
      central_reattach(span);
    } else if (!more) {
      pass.place.size_class++;
    }
  }
  return true;
}

// Returns false if time is up before the end; pass.place is then where it stopped.
bool run(Pass& pass) {
  while (ThreadHeap* heap = pass.place.heap) {
    if (!purge_heap(*heap, pass)) return false;
    pass.place = ScanPosition{heap->next_all, 0};
  }
  return purge_unowned(pass);
}

// ---- scheduling ----

std::atomic<uint64_t> next_slice_ns{0};
std::atomic<bool> unfinished{false};  // spans of this period are left

// Belongs to the purger. A period is half a purge delay. Its length doubles each time much of the
// purged memory is reused.
constexpr unsigned kMaxDoublings = 6;
struct Periods {
  uint64_t next_ns;
  unsigned doubled;
  uint64_t purged_before, refilled_before;
  ScanPosition place;  // where the last slice stopped
};
Periods periods;

void set_length(uint64_t purged, uint64_t refilled) {
  constexpr uint64_t kLittle = 1 * MiB;
  if (purged >= kLittle && refilled > purged / 5) {
    if (periods.doubled < kMaxDoublings) periods.doubled++;
  } else if (refilled < kLittle && periods.doubled != 0) {
    periods.doubled--;
  }
}

// Half a purge delay, but not longer because free runs are kept for longer: holes have a measure of
// reuse of their own.
uint64_t shortest_period_ns() {
  constexpr uint64_t kTunedNs = pages::PurgeDelay::kFirstNs / 2;
  uint64_t half = pages::purge_delay_ns() / 2;
  if (!options::is_explicitly_set(options::Id::purge_delay) && half > kTunedNs) half = kTunedNs;
  return half > kMinPeriodNs ? half : kMinPeriodNs;
}

void begin_period(uint64_t now) {
  uint64_t purged = purged_bytes.load(std::memory_order_relaxed), refilled = refilled_hole_bytes();
  set_length(purged - periods.purged_before, refilled - periods.refilled_before);
  periods.purged_before = purged;
  periods.refilled_before = refilled;
  uint64_t length = shortest_period_ns();
  for (unsigned i = 0; i < periods.doubled && length < kMaxPeriodNs; i++) length *= 2;
  periods.next_ns = now + length;
  // Continues first with the work that is left from the last period.
  if (!unfinished.load(std::memory_order_relaxed)) periods.place = first_position();
  unfinished.store(true, std::memory_order_relaxed);
  begin_epoch();
}

void run_slice(uint64_t now, uint64_t most_ns) {
  if (now >= periods.next_ns) begin_period(now);
  if (!unfinished.load(std::memory_order_relaxed)) return;
  if (!pages::purge_budget.may_spend()) return;
  uint64_t cpu_before = os::thread_cpu_ns();
  Pass pass{kPeriodsToWait, os::monotonic_ns() + most_ns, periods.place};
  bool complete = run(pass);
  periods.place = pass.place;
  pages::purge_budget.spent(os::thread_cpu_ns() - cpu_before);
  // The kernel would refuse it again.
  if (pass.refused) periods.doubled = kMaxDoublings;
  if (pass.refused || complete) unfinished.store(false, std::memory_order_relaxed);
}

}  // namespace

namespace {
bool purging_enabled() {
  return pages::purge_mode() != options::Purge::kNever && pages::region_count() >= kMinRegions;
}
}  // namespace

void purge_holes_if_due(uint64_t now_ns) {
  if (now_ns < next_slice_ns.load(std::memory_order_relaxed)) return;
  const void* helper = hole_helper_thread.load(std::memory_order_relaxed);
  if (helper != nullptr && helper != &thread_cache) return;
  if (!purging_enabled() || !become_purger()) return;
  next_slice_ns.store(now_ns + kRestNs, std::memory_order_relaxed);
  run_slice(now_ns, helper != nullptr ? kSliceNs : kShortSliceNs);
  release_purger();
}

namespace {
// Returns when the period began, or when the oldest remembered one did; 0 if no period has ended
// yet.
uint64_t begin_ns_of(uint32_t epoch, uint32_t now) {
  uint32_t oldest = now < kRememberedEpochs ? 1 : now - kRememberedEpochs + 1;
  if (epoch < oldest) epoch = oldest;
  // Loaded before the check whether another period has begun.
  uint64_t began = began_ns[epoch % kEpochSlots].load(std::memory_order_acquire);
  // The first period began with the process, and its start is not recorded: returns the start of
  // the second.
  if (began == 0 && epoch < now)
    began = began_ns[(epoch + 1) % kEpochSlots].load(std::memory_order_acquire);
  return began;
}
}  // namespace

uint64_t ns_since_hole_epoch(uint32_t epoch) {
  uint32_t now = hole_epoch.load(std::memory_order_acquire), later = now;
  uint64_t began;
  do {
    now = later;
    began = begin_ns_of(epoch, now);
    later = hole_epoch.load(std::memory_order_acquire);
  } while (later != now);
  uint64_t time = os::coarse_monotonic_ns();
  return began == 0 || began > time ? 0 : time - began;
}

bool hole_scan_unfinished() {
  return unfinished.load(std::memory_order_relaxed) && purging_enabled();
}

namespace {
// Waits for another thread's slice, but not for a slice of this thread that a signal handler has
// interrupted.
bool try_become_purger_for(uint64_t most_ns) {
  constexpr uint64_t kPauseNs = 100 * kMicrosecondNs, kMaxNs = 50 * kMillisecondNs;
  if (most_ns > kMaxNs) most_ns = kMaxNs;
  for (uint64_t waited_ns = 0; waited_ns < most_ns; waited_ns += kPauseNs) {
    if (become_purger()) return true;
    if (purger.load(std::memory_order_relaxed) == &thread_cache) return false;
    os::pause(kPauseNs);
  }
  return false;
}

// Belongs to the purger: true if the last bounded pass stopped before the end.
bool unfinished_pass = false;
ScanPosition next_place;
}  // namespace

size_t purge_all_holes(uint64_t most_ns) {
  if (!try_become_purger_for(most_ns)) return 0;
  begin_epoch();  // spans that are on a list now have been there since an earlier period
  uint64_t begin = os::monotonic_ns();
  bool bounded = most_ns < UINT64_MAX - begin;
  Pass pass{1, bounded ? begin + most_ns : UINT64_MAX,
            bounded && unfinished_pass ? next_place : first_position()};
  unfinished_pass = !run(pass);
  next_place = pass.place;
  release_purger();
  return pass.bytes;
}

HolePurgePause::HolePurgePause() {
  while (!become_purger()) os::pause(50 * kMicrosecondNs);
}
HolePurgePause::~HolePurgePause() { release_purger(); }

HoleCounters hole_counters() {
  auto read = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  return {read(spans_with_holes), read(purged_bytes), refilled_hole_bytes(), read(current_spans)};
}

// ---- fork ----

void reset_purger_in_child(bool may_lock) {
  hole_helper_thread.store(nullptr, std::memory_order_relaxed);
  // A signal handler has called fork in the middle of a purge: the purger is this thread, which
  // will continue.
  if (purger.load(std::memory_order_relaxed) == &thread_cache) return;
  Span* span = detached_span.load(std::memory_order_relaxed);
  if (span != nullptr && may_lock) {
    if (span->remote.load(std::memory_order_relaxed) == kUnowned) {
      central_reattach(span);
    } else {
      reattach_owned(*static_cast<ThreadHeap*>(const_cast<void*>(span->owner_acquire())), span);
    }
  }
  purger.store(nullptr, std::memory_order_relaxed);
}

}  // namespace seemalloc::heap
