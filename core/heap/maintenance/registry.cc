#include "core/heap/maintenance/registry.h"

#include <limits.h>

#include <new>

#include "core/base/check.h"
#include "core/base/counters.h"
#include "core/base/options.h"
#include "core/heap/maintenance/hand_over.h"
#include "core/heap/maintenance/orphaned_heaps.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/policy/purge_policy.h"

namespace seemalloc::heap {

namespace {

ThreadHeap* first_idle = nullptr;
ThreadHeap* oldest_heap = nullptr;
// At most this many abandoned heaps keep their lists and spans; the others are emptied. When many
// threads end together, rarely as many new ones start soon.
constexpr unsigned kMaxAbandonedHeaps = 16;
// Limits on the spans of abandoned heaps, together and each: until the next thread or tick no other
// thread can use their free memory.
constexpr size_t kMaxAbandonedBytes = 16 * MiB, kMaxAbandonedEachBytes = 4 * MiB;
unsigned abandoned_count = 0;
size_t abandoned_bytes = 0;  // includes the limits of heaps that are about to be abandoned
// Bytes given to earlier threads of heaps that another thread has now; registry lock.
uint64_t allocated_by_earlier_owners = 0;
std::atomic<uint64_t> allocated_without_heap{0};

// Bodies are adjacent, so that the pages of idle ones can be purged together.
constexpr unsigned kBodiesPerChunk = 32;
HeapBody* next_body = nullptr;
HeapBody* bodies_end = nullptr;

HeapBody* take_body_locked() {
  DCHECK(registry_lock().is_held());
  if (next_body != bodies_end) return next_body;
  size_t bytes = round_up(sizeof(HeapBody) * kBodiesPerChunk, os::page_bytes());
  void* chunk = os::map(bytes, os::Reason::kRecords);
  unsigned count = kBodiesPerChunk;
  if (chunk == nullptr) {  // a single one, from the arena
    chunk = os::arena_allocate(round_up(sizeof(HeapBody), os::page_bytes()), os::page_bytes());
    count = 1;
  }
  if (chunk == nullptr) return nullptr;
  next_body = static_cast<HeapBody*>(chunk);
  bodies_end = next_body + count;
  return next_body;
}

ThreadHeap* make_heap_locked() {
  HeapBody* body = take_body_locked();
  void* memory =
      body != nullptr ? os::arena_allocate(sizeof(ThreadHeap), alignof(ThreadHeap)) : nullptr;
  if (memory == nullptr) return nullptr;
  ThreadHeap* heap = new (memory) ThreadHeap;
  heap->body = body;
  DCHECK(next_body == body && next_body < bodies_end);
  next_body++;
  if (oldest_heap == nullptr) oldest_heap = heap;
  add_to_all_heaps(heap);
  return heap;
}

void push_idle_locked(ThreadHeap& heap) {
  DCHECK(registry_lock().is_held());
  DCHECK(heap.state.load(std::memory_order_relaxed) != HeapState::kActive);
  heap.idle_ticks = 1;
  heap.next_idle = first_idle;
  first_idle = &heap;
  count_active_heaps(-1);
}

// The heap has left the idle list, for its next thread or to be emptied.
void make_active_locked(ThreadHeap& heap) {
  DCHECK(registry_lock().is_held());
  if (heap.state.load(std::memory_order_relaxed) == HeapState::kAbandoned) {
    DCHECK(abandoned_count != 0 && abandoned_bytes >= heap.abandoned_bytes);
    abandoned_count--;
    abandoned_bytes -= heap.abandoned_bytes;
  }
  heap.idle_ticks = 0;
  heap.state.store(HeapState::kActive, std::memory_order_seq_cst);
  count_active_heaps(+1);
}

// A heap changes hands in several critical sections. If a signal handler forks between two of them,
// that counts as a fork within one: the child has this thread, which continues the change.
class HeapTransfer {
 public:
  HeapTransfer() { count_held(+1); }
  ~HeapTransfer() { count_held(-1); }
  HeapTransfer(const HeapTransfer&) = delete;
  HeapTransfer& operator=(const HeapTransfer&) = delete;
};

// Returns the blocks of the heap's lists and releases its spans; afterwards the next thread may
// have the heap.
void drain_heap(ThreadHeap& heap) {
  release_everything(heap);
  LockGuard guard(registry_lock());
  push_idle_locked(heap);
}

// Takes the heap that became idle last, except heaps whose lists are older than a change of the
// option `sample`: a tick empties those. Returns null if there is none.
ThreadHeap* take_idle_locked() {
  DCHECK(registry_lock().is_held());
  ThreadHeap** link = &first_idle;
  auto is_older = [](const ThreadHeap& heap) {
    return heap.state.load(std::memory_order_relaxed) == HeapState::kAbandoned &&
           has_stale_lists(heap);
  };
  while (*link != nullptr && is_older(**link)) link = &(*link)->next_idle;
  ThreadHeap* heap = *link;
  if (heap != nullptr) *link = heap->next_idle;
  return heap;
}

// Reserves space for one more abandoned heap. Returns the most bytes that it may have; 0: there is
// no space.
size_t reserve_abandoned_bytes() {
  LockGuard guard(registry_lock());
  size_t left = saturating_subtract(kMaxAbandonedBytes, abandoned_bytes),
         most = left < kMaxAbandonedEachBytes ? left : kMaxAbandonedEachBytes;
  if (abandoned_count == kMaxAbandonedHeaps || most == 0) return 0;
  abandoned_count++;
  abandoned_bytes += most;
  return most;
}

// Returns false if the heap must be emptied.
bool try_keep_intact(ThreadHeap& heap) {
  size_t most = pages::purge_mode() != options::Purge::kEager ? reserve_abandoned_bytes() : 0;
  if (most == 0) return false;
  bool kept = try_keep_for_next_thread(heap, most);
  LockGuard guard(registry_lock());
  DCHECK(abandoned_count != 0 && abandoned_count <= kMaxAbandonedHeaps && abandoned_bytes >= most);
  abandoned_bytes -= most;
  if (!kept) {
    abandoned_count--;
    return false;
  }
  DCHECK(heap.abandoned_bytes <= most &&
         heap.cache.load(std::memory_order_relaxed) == &heap.body->saved_lists);
  abandoned_bytes += heap.abandoned_bytes;
  heap.process_id.store(0, std::memory_order_relaxed);
  heap.state.store(HeapState::kAbandoned, std::memory_order_seq_cst);
  push_idle_locked(heap);
  return true;
}

}  // namespace

uint64_t allocated_by_earlier_threads() {
  return allocated_by_earlier_owners + allocated_without_heap.load(std::memory_order_relaxed);
}
void count_allocated_without_heap(uint64_t bytes) {
  allocated_without_heap.fetch_add(bytes, std::memory_order_relaxed);
}

ThreadHeap* adopt_heap() {
  HeapTransfer hand_over;
  ThreadHeap* heap;
  int thread_id = os::thread_id(), process_id = os::process_id();
  {
    LockGuard guard(registry_lock());
    ThreadHeap* oldest = oldest_heap;
    if (oldest != nullptr && oldest->cache.load(std::memory_order_relaxed) == &thread_cache) {
      // The heap was made before thread-local memory was initialised, which wiped our pointer to
      // it; or its thread was lost, and this thread has its memory. The heap is active. Its lists
      // are lost: a few blocks that will never be allocated.
      heap = oldest;
    } else {
      heap = take_idle_locked();
      if (heap == nullptr) heap = make_heap_locked();
      if (heap == nullptr) return nullptr;
      make_active_locked(*heap);
    }
    heap->thread_id.store(thread_id, std::memory_order_relaxed);
    heap->process_id.store(process_id, std::memory_order_relaxed);
    allocated_by_earlier_owners += heap->allocated_bytes;
    heap->sample_at -= heap->allocated_bytes;  // each thread has a clock of its own
    heap->allocated_bytes = 0;
    set_large_cache_limits(active_heaps());
  }

  DCHECK(heap->state.load(std::memory_order_relaxed) == HeapState::kActive &&
         heap->idle_ticks == 0);
  heap->shard = pages::next_shard();
  attach_to_this_thread(*heap);
  return heap;
}

void abandon_heap(ThreadHeap& heap) {
  DCHECK(&heap == thread_cache.heap);
  heap.body->large.flush();
  HeapTransfer hand_over;
  if (try_keep_intact(heap)) return;
  {
    LockGuard guard(heap.slow_lock);
    detach_from_this_thread(heap);
  }
  drain_heap(heap);
}

namespace {
void purge_whole_pages(const HeapBody* first, const HeapBody* last) {
  uintptr_t start = round_up(reinterpret_cast<uintptr_t>(first), os::page_bytes());
  uintptr_t end = round_down(reinterpret_cast<uintptr_t>(last + 1), os::page_bytes());
  if (start < end) os::purge(reinterpret_cast<void*>(start), end - start, os::Reason::kRecords);
}

// A zombie keeps a span while a remote free to it is under way, or while parts of it are being
// purged.
bool has_no_spans(ThreadHeap& heap) {
  LockGuard guard(heap.slow_lock);
  if (heap.detached_spans != 0) return false;
  for (const ClassState& cs : heap.body->classes) {
    if (cs.available.size() != 0 || cs.full.size() != 0) return false;
  }
  return true;
}

// Takes the next abandoned heap, which is the caller's from here on; null if there is none.
ThreadHeap* take_abandoned() {
  LockGuard guard(registry_lock());
  for (ThreadHeap** link = &first_idle; *link != nullptr; link = &(*link)->next_idle) {
    ThreadHeap* heap = *link;
    if (heap->state.load(std::memory_order_relaxed) != HeapState::kAbandoned) continue;
    *link = heap->next_idle;
    LockGuard slow(heap->slow_lock);
    DCHECK(heap->idle_ticks != 0);
    make_active_locked(*heap);
    return heap;
  }
  return nullptr;
}
}  // namespace

void release_abandoned_heaps() {
  HeapTransfer hand_over;
  while (ThreadHeap* heap = take_abandoned()) drain_heap(*heap);
}

namespace {
// Checking a thread takes a system call, so one tick checks at most this many.
constexpr unsigned kMaxThreadChecksPerTick = 64;
// Where the next tick's checks begin; null: at the newest. Registry lock.
ThreadHeap* next_thread_check = nullptr;

// A thread that was lost in the middle of a slow path, or in a signal handler there, holds the lock
// for ever.
bool is_locked(ThreadHeap& heap) {
  if (!heap.slow_lock.try_lock()) return true;
  heap.slow_lock.unlock();
  return false;
}

// Takes the next heap that has lost its thread, which is the caller's from here on. Makes at most
// *looks checks. Returns null if it finds none. Sets *from to the heap at which the next call
// continues.
ThreadHeap* take_orphaned(ThreadHeap** from, unsigned* looks, int this_process) {
  LockGuard guard(registry_lock());
  for (; *from != nullptr && *looks != 0; --*looks) {
    ThreadHeap* heap = *from;
    *from = heap->next_all;
    next_thread_check = *from;
    if (!thread_has_exited(*heap, this_process) || is_locked(*heap)) continue;
    DCHECK(heap->state.load(std::memory_order_relaxed) == HeapState::kActive &&
           heap != thread_cache.heap);
    heap->process_id.store(0, std::memory_order_relaxed);
    LockGuard slow(heap->slow_lock);  // from here on no thread takes its current spans
    copy_lists_from_thread(*heap);
    return heap;
  }
  return nullptr;
}
}  // namespace

void release_orphaned_heaps(bool all) {
  unsigned mine = thread_cache.heap != nullptr ? 1 : 0;
  // A program without other threads makes no system calls here.
  if (active_heaps() <= mine) return;
  ThreadHeap* from = nullptr;
  if (!all) {
    LockGuard guard(registry_lock());
    from = next_thread_check;
  }
  if (from == nullptr) from = all_heaps();
  unsigned looks = all ? UINT_MAX : kMaxThreadChecksPerTick;
  int this_process = os::process_id();
  HeapTransfer hand_over;
  while (ThreadHeap* heap = take_orphaned(&from, &looks, this_process)) {
    heap->body->large.flush_idle(large_cache_epoch.load(std::memory_order_relaxed) + 1);
    drain_heap(*heap);
  }
}

void flush_idle_large_caches(uint32_t epoch) {
  unsigned active = 0;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) != HeapState::kActive) continue;
    heap->body->large.flush_idle(epoch);
    active++;
  }
  set_large_cache_limits(active);
}

namespace {
bool release_if_empty(ClassState& cs, Span* span) {
  if (span == nullptr || !span->is_empty_acquire()) return false;
  remove_available(cs, span);
  release_empty_span(span);
  return true;
}
}  // namespace

void release_empty_spans() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) != HeapState::kActive ||
        !heap->slow_lock.try_lock())
      continue;
    for (ClassState& cs : heap->body->classes) {
      if (!release_if_empty(cs, cs.available.front())) release_if_empty(cs, cs.available.back());
    }
    heap->slow_lock.unlock();
  }
}

namespace {

constexpr uint8_t kIdleTicksBeforePurge = 2;

bool has_idle_body(ThreadHeap& heap) {
  return heap.idle_ticks > kIdleTicksBeforePurge && heap.idle_ticks != kBodyPurging &&
         heap.state.load(std::memory_order_relaxed) == HeapState::kZombie &&
         (heap.idle_ticks == kBodyPurged || has_no_spans(heap));
}

// Heaps with adjacent bodies. They are off the idle list, so no other thread takes them while their
// pages are purged.
struct IdleBodies {
  ThreadHeap* heaps = nullptr;  // linked by next_idle
  HeapBody* first = nullptr;
  HeapBody* last = nullptr;
};

// Starting at *from, takes the next group of which at least one body still has its pages. Returns
// an empty group if there is none. Sets *from to the heap at which the next call continues.
IdleBodies take_idle_bodies(ThreadHeap** from) {
  LockGuard guard(registry_lock());
  IdleBodies found;
  ThreadHeap* newest = nullptr;
  ThreadHeap* heap = *from;
  bool fresh = false;
  for (; heap != nullptr; heap = heap->next_all) {
    bool idle = has_idle_body(*heap);
    // Newest first, so addresses mostly decrease.
    if (!idle || heap->body + 1 != found.first) {
      if (fresh) break;
      newest = heap;
      found.last = heap->body;
    }
    found.first = idle ? heap->body : nullptr;
    fresh |= idle && heap->idle_ticks != kBodyPurged;
  }
  *from = heap;
  if (!fresh) return {};
  for (ThreadHeap* each = newest; each != heap; each = each->next_all)
    each->idle_ticks = kBodyPurging;
  for (ThreadHeap** link = &first_idle; *link != nullptr;) {
    ThreadHeap* idle = *link;
    if (idle->idle_ticks != kBodyPurging) {
      link = &idle->next_idle;
      continue;
    }
    *link = idle->next_idle;
    DCHECK(idle->state.load(std::memory_order_relaxed) == HeapState::kZombie);
    idle->next_idle = found.heaps;
    found.heaps = idle;
  }
  return found;
}

// Puts the heaps back into the idle list, behind the others, whose bodies still have their pages.
void put_idle_bodies(const IdleBodies& bodies) {
  LockGuard guard(registry_lock());
  for (ThreadHeap* heap = bodies.heaps; heap != nullptr; heap = heap->next_idle)
    heap->idle_ticks = kBodyPurged;
  ThreadHeap** end = &first_idle;
  while (*end != nullptr) end = &(*end)->next_idle;
  *end = bodies.heaps;
}

void age_idle_heaps() {
  LockGuard guard(registry_lock());
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->idle_ticks != 0 && heap->idle_ticks <= kIdleTicksBeforePurge) heap->idle_ticks++;
  }
}

}  // namespace

void purge_idle_bodies() {
  HeapTransfer hand_over;
  for (ThreadHeap* from = all_heaps(); from != nullptr;) {
    IdleBodies bodies = take_idle_bodies(&from);
    if (bodies.heaps == nullptr) break;
    purge_whole_pages(bodies.first, bodies.last);
    put_idle_bodies(bodies);
  }
  age_idle_heaps();
}

namespace {
// Counts since the process's start begin again in the child: a sum over processes would otherwise
// count the parent's twice.
void forget_counts_in_child() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    set_to_zero(heap->remote_frees, heap->realloc_copies, heap->realloc_copied_bytes);
  }
  forget_heapless_remote_frees_in_child();
  forget_refills_in_child();
}
}  // namespace

namespace {
// In a forked child: the lost thread may have been in refill_from_local_frees(), which takes no
// lock. Then its next list had left the span, but the span's counts did not yet include it. The
// blocks of that list are lost in the child.
void finish_interrupted_refill(ThreadHeap& heap) {
  for (Span* span : heap.body->local_refill_spans) {
    if (span != nullptr && span->local_free == nullptr && span->free_blocks_of_current() != 0)
      span->set_all_live();
  }
}
}  // namespace

void recover_heaps_in_child(bool may_lock) {
  if (thread_cache.heap != nullptr) {
    thread_cache.heap->thread_id.store(os::thread_id(), std::memory_order_relaxed);
    thread_cache.heap->process_id.store(os::process_id(), std::memory_order_relaxed);
  }
  unsigned still_parked = 0;
  size_t still_parked_bytes = 0;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    heap->body->large.reset();
    HeapState state = heap->state.load(std::memory_order_relaxed);
    if (state == HeapState::kAbandoned) {
      still_parked++;
      still_parked_bytes += heap->abandoned_bytes;
    }
    if (may_lock && state == HeapState::kZombie &&
        (heap->idle_ticks == 0 || heap->idle_ticks == kBodyPurging)) {
      // The thread that emptied it, or purged its body, was about to do this.
      LockGuard guard(registry_lock());
      if (heap->idle_ticks == kBodyPurging) count_active_heaps(+1);
      push_idle_locked(*heap);
    }
    if (heap == thread_cache.heap || state != HeapState::kActive) continue;
    if (!may_lock) {
      // The C library may unmap the memory of threads that the child does not have, and their lists
      // with it. A cache that is this thread's belongs to a heap that it is about to adopt.
      ThreadCache* cache = heap->cache.load(std::memory_order_relaxed);
      if (cache != &thread_cache && cache != &heap->body->saved_lists)
        heap->cache.store(nullptr, std::memory_order_relaxed);
      continue;
    }
    finish_interrupted_refill(*heap);
    heap->body->large.flush();
    copy_lists_from_thread(*heap);
    drain_heap(*heap);
  }
  if (may_lock) {  // other threads may have been changing these counters at the fork
    abandoned_count = still_parked;
    abandoned_bytes = still_parked_bytes;
  }
  forget_counts_in_child();
}

}  // namespace seemalloc::heap
