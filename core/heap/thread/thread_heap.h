// ThreadHeap: the spans and lists of one thread. Its thread free lists (one per class) are in
// thread-local memory (ThreadCache).
//
// malloc pops from a thread free list that no other thread pushes to. free pushes onto the local
// free list of the block's span. So each list has a known length when it becomes the thread free
// list, and all rare work (refill, remote frees, samples, collection) is done where a thread free
// list ends.
//
// Callers: the slow paths of core/api. Heaps are recycled and never unmapped: a stale pointer to a
// heap stays readable. Threads: the owner, holding slow_lock. Another thread holds slow_lock too,
// and only releases spans without live blocks (remote.cc), or takes a span off its list, or takes
// the current span of a class that is not in use, and puts it back later (holes.h,
// current_spans.h).
// Two paths of the owner run without the lock: the fast paths, which touch heads[] and the
// local_free and countdown of spans that they own; and refill_from_local_frees, which touches its
// current span only.
// `large` has a lock of its own.
// Lock order: registry → slow_lock → central list → page heap shard → arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/zeroing_pace.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;
using pages::SpanList;

enum class HeapState : uint8_t {
  kActive,  // a thread has it
  // abandoned: its thread has exited; its spans and lists wait for the next thread, until a tick.
  kAbandoned,
  // Its thread has exited; the thread that finishes a remote free to it releases its last spans.
  kZombie,
};

struct ClassState {
  Span* current;  // the blocks of the thread free list come from this span
  // Blocks of other threads' spans, freed here: the next free list, or published (remote.h).
  Block* gathered;
  uint32_t gathered_count;
  // How often the thread free list ran out, less what is in flushed_refills() and the lists that
  // refill_from_local_frees served since the last refill.
  uint32_t refills;
  Block* stash;  // the rest of a list that was cut at a sample point
  uint32_t stash_count;
  // The thread free list and the stash do not hold blocks of `current`, but of shared spans or
  // gathered blocks.
  bool lists_not_from_current;
  // The next allocation of this class is a sample: 1 + log2 of its back-off factor; else 0.
  uint8_t sample_due;
  uint8_t shared_lists_taken;  // lists taken from shared spans so far
  uint32_t low_water;          // fewest available spans since the last collection
  // A hash of the current span's use, as the purger last saw it (current_spans.h).
  uint32_t last_use_hash;
  // Spans with free blocks; the span that has been available longest is in front.
  SpanList available;
  SpanList full;  // spans that become available once enough of their blocks are freed
};

// Takes a span off the available list and lowers low_water if the list is now shorter than ever
// since the last collection.
inline void remove_available(ClassState& cs, Span* span) {
  DCHECK(span->state == pages::SpanState::kAvailable);
  cs.available.remove(span);
  if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
}

inline constexpr uint32_t kMaxGatheredBlocks = 16;

// The large part of a heap. It is all zeros while no thread has the heap, except for fields that
// may safely become zero (`zeroing`), so its pages can be purged.
struct HeapBody {
  // For refill_from_local_frees: the class's current span; null if a stash or a sample comes first,
  // or the purger takes the span.
  Span* local_refill_spans[kClassCount];
  // Lists that refill_from_local_frees may still hand out before refill must do the other work.
  uint32_t local_refills_left[kClassCount];
  // The value of local_refills_left when refill last set it.
  uint16_t local_refills_granted[kClassCount];
  ClassState classes[kClassCount];
  LargeCache large;
  // Between two threads: the previous thread's lists, until the next thread or a tick takes them.
  ThreadCache saved_lists;
  // Bytes of the lists that came with the heap, as far as allocated_by_this_thread() has found
  // them.
  uint64_t inherited_bytes;
  // The value of sample_changes when the heap last had no lists.
  uint64_t sample_changes_of_lists;
  ZeroingPace zeroing;  // of this heap's large callocs
  // Until allocated_bytes reaches this, sample distances are drawn without back-off
  // (sample_growth.h).
  uint64_t no_backoff_until;
  // GrowthWatch::times() at the last draw; 0: the thread has not drawn yet.
  uint32_t growth_steps_seen;
};

struct ThreadHeap {
  // Invariants, under slow_lock (verify.h); 4 and 5 as the owner sees them:
  //  1. the spans on a class's lists, and its current span, are owned by this heap and have that
  //     class and state.
  //  2. body->local_refill_spans[c] is null or the current span of the class, and null while there
  //     is a stash.
  //  3. low_water is at most the number of available spans.
  //  4. the stash has stash_count blocks, and some while a sample is due. It and the thread free
  //     list have blocks of the current span, unless the class is mixed.
  //  5. gathered has gathered_count blocks; gathered_bytes is their sum over all classes.
  // Spans that got their first remote free. Any thread pushes, the owner empties the stack. The
  // push releases and the exchange that empties it acquires (both are seq_cst, for rule 4 of
  // remote.h).
  alignas(kCacheLineBytes) std::atomic<Span*> pending{nullptr};
  std::atomic<uint32_t> pending_count{0};
  // Pending spans with all live blocks freed: an estimate.
  std::atomic<uint32_t> complete_count{0};
  // At this complete_count other threads try to reclaim spans for this heap (remote.cc).
  std::atomic<uint32_t> reclaim_at{8};
  std::atomic<HeapState> state{HeapState::kActive};

  alignas(kCacheLineBytes) OwnerLock slow_lock;
  // Its thread's cache, which no other thread may dereference (orphaned_heaps.h); or
  // &body->saved_lists; or null.
  std::atomic<ThreadCache*> cache{nullptr};
  unsigned shard = 0;
  uint32_t slow_entries = 0;  // slow-path entries since collection was last considered
  // Of its current or last thread; written under the registry lock.
  std::atomic<int32_t> thread_id{0};
  uint64_t collected_ns = 0;  // when the last collection was done
  size_t gathered_bytes = 0;  // bytes of gathered blocks in all classes
  // Bytes given to its thread, in lists and large blocks. Compared with sample_at.
  uint64_t allocated_bytes = 0;
  uint64_t sample_at = 0;  // the value of allocated_bytes at the next sample point
  // sample_at was drawn with the mean sample_base << sample_backoff_log2; the drawing code sets all
  // three.
  uint64_t sample_base = 0;
  uint64_t drawn_interval = 0;  // the mean with which the sample that is being taken was drawn
  uint64_t random_state = 0;
  // Belongs to core/api: records the samples of the thread that has the heap.
  void* recorder = nullptr;
  uint64_t sample_changes = 0;  // the value of sample_changes when the distance was drawn
  uint8_t sample_backoff_log2 = 0;
  uint32_t sample_home = 0;      // home of the sample that is being taken (homes.h)
  uint32_t abandoned_bytes = 0;  // bytes of its spans, while it is abandoned (kAbandoned)
  // Counts; written by the owner. statistics.cc adds up those of all heaps, and registry.cc resets
  // them in a forked child. First: blocks that its threads have published.
  std::atomic<uint64_t> remote_frees{0};
  // Blocks that realloc had to copy, by its threads; written by the owner.
  std::atomic<uint64_t> realloc_copies{0};
  std::atomic<uint64_t> realloc_copied_bytes{0};
  size_t cached_bytes = 0;  // this heap's share of the global count, as of the last collection
  ThreadHeap* next_all = nullptr;
  ThreadHeap* next_idle = nullptr;
  HeapBody* body = nullptr;  // never null, never changes
  // Spans on none of its lists because their pages are being purged (holes.h). Under slow_lock.
  uint32_t detached_spans = 0;
  // 0 while a thread has the heap. kBodyPurged: the body's pages are purged. kBodyPurging: a thread
  // is purging them and holds the heap. Under the registry lock.
  uint8_t idle_ticks = 0;
  // The process that thread_id belongs to; 0: the heap has no thread that could be lost
  // (orphaned_heaps.h). Under the registry lock.
  std::atomic<int32_t> process_id{0};
};

// Records of heaps are never purged, so they stay small. What a heap needs only while a thread has
// it belongs to HeapBody.
static_assert(sizeof(ThreadHeap) == 4 * kCacheLineBytes);

inline constexpr uint8_t kBodyPurged = UINT8_MAX, kBodyPurging = UINT8_MAX - 1;

// ---- the list of heaps; registry.h changes it ----

// All heaps ever made, newest first; the list never shrinks. The registry lock protects their
// states.
ThreadHeap* all_heaps();
// Number of heaps that have a thread.
unsigned active_heaps();
Lock& registry_lock();
// Adds a new heap, or counts one more or less that has a thread. Requires: the registry lock.
void add_to_all_heaps(ThreadHeap* heap);
void count_active_heaps(int by);

// ---- counters ----

// How often a thread free list of the class ran out: in heaps that no thread has any more
// (flushed_refills), and in this heap (refills_of).
uint64_t flushed_refills(unsigned size_class);
void forget_refills_in_child();
uint64_t refills_of(const ThreadHeap& heap, unsigned size_class);
// The heap loses its thread: its refills become settled ones.
void flush_refill_count(ThreadHeap& heap, unsigned size_class);
// refill has run. refill_from_local_frees may hand out this many lists before the next one.
void count_refill(ThreadHeap& heap, unsigned size_class, uint16_t lists);

// Bytes that were handed to threads and that the program never got: left in lists when the threads
// ended, or samples that were not taken.
uint64_t unused_bytes_of_ended_threads();
void count_unused_bytes(uint64_t bytes);

// Free bytes kept by all thread heaps, as of their last collections.
size_t cached_bytes_total();
// Sets this heap's share.
void set_cached_bytes(ThreadHeap& heap, size_t bytes);

// Counts blocks that the calling thread publishes (publish.h). `heap` is its heap, or null.
void count_remote_frees(ThreadHeap* heap, uint32_t blocks);
// Number of blocks sent to their spans' owners so far. Blocks that their thread reused itself are
// not counted.
uint64_t remote_frees();
void forget_heapless_remote_frees_in_child();

}  // namespace seemalloc::heap
