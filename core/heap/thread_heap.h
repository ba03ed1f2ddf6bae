// ThreadHeap: the spans and lists of one thread. Its thread free lists (one per class) are in thread-local memory
// (ThreadCache).
//
// malloc pops from a thread free list that no other thread pushes to. free pushes onto the local free list of the
// block's span. So each list has a known length when it becomes the thread free list, and all rare work (refill, remote
// frees, samples, collection) is done where a thread free list ends.
//
// Callers: the slow paths of core/api. Heaps are recycled and never unmapped: a stale pointer to a heap stays readable.
// Threads: the owner, holding slow_lock. Another thread holds slow_lock too, and only releases spans without live
// blocks (remote.cc), or takes a span off its list, or takes the current span of a class that is not in use, and puts
// it back later (holes.h, current_spans.h).
// Two paths of the owner run without the lock: the fast paths, which touch heads[] and the free_list and countdown of
// spans that they own; and take_freed, which touches its current span only.
// `large` has a lock of its own.
// Lock order: registry → slow_lock → central list → page heap shard → arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/heap/large_cache.h"
#include "core/heap/parcel.h"
#include "core/heap/size_class.h"
#include "core/heap/zeroing.h"
#include "core/os/lock.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;
using pages::SpanList;

struct ThreadHeap;

// The thread-local part: everything that malloc touches. It starts as all zeros. A new thread, or code that runs before
// thread-local memory is initialised (ifunc resolvers), finds every list empty and so enters the slow path.
struct ThreadCache {
  ThreadHeap* heap = nullptr;
  Block* heads[kClassCount] = {};
  bool finished = false;  // the thread's heap is gone: the thread is past its last destructors
};
#define SEEMALLOC_THREAD_CACHE_SYMBOL "seemalloc_thread_cache"  // list_head.h addresses it in assembly
extern constinit thread_local ThreadCache thread_cache __asm__(SEEMALLOC_THREAD_CACHE_SYMBOL) __attribute__((tls_model("initial-exec")));

enum class HeapState : uint8_t {
  kActive,  // a thread has it
  kParked,  // abandoned: its thread has exited; its spans and lists wait for the next thread, until a tick
  kZombie,  // its thread has exited; the thread that finishes a remote free to it releases its last spans
};

struct ClassState {
  Span* current;         // the blocks of the thread free list come from this span
  Block* foreign;        // blocks of other threads' spans, freed here: the next free list, or published (remote.h)
  uint32_t foreign_count;
  uint32_t refills;      // how often the thread free list ran out, less what is in settled_refills() and the lists that
                         // take_freed served since the last refill
  Block* stash;          // the rest of a list that was cut at a sample point
  uint32_t stash_count;
  bool mixed;            // the thread free list and the stash do not hold blocks of `current`, but of shared spans or
                         // foreign blocks
  uint8_t sample_due;    // the next allocation of this class is a sample: 1 + log2 of its back-off factor; else 0
  uint8_t borrowed;      // lists taken from shared spans so far
  uint32_t low_water;    // fewest available spans since the last collection
  uint32_t last_use;     // a hash of the current span's use, as the purger last saw it (current_spans.h)
  SpanList available;    // spans with free blocks; the span that has been available longest is in front
  SpanList full;         // spans that become available once enough of their blocks are freed
};

// Takes a span off the available list and lowers low_water if the list is now shorter than ever since the last
// collection.
inline void remove_available(ClassState& cs, Span* span) {
  DCHECK(span->state == pages::SpanState::kAvailable);
  cs.available.remove(span);
  if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
}

inline constexpr uint32_t kMaxForeignBlocks = 16;

// The large part of a heap. It is all zeros while no thread has the heap, except for fields that may safely become zero
// (`zeroing`), so its pages can be purged.
struct HeapBody {
  Span* ready[kClassCount];  // for take_freed: the class's current span; null if a stash or a sample comes first, or
                             // the purger takes the span
  uint32_t freed_lists[kClassCount];  // lists that take_freed may still hand out before refill must do the other work
  uint16_t freed_lists_at_first[kClassCount];  // the value of freed_lists when refill last set it
  ClassState classes[kClassCount];
  LargeCache large;
  ThreadCache kept;  // between two threads: the previous thread's lists, until the next thread or a tick takes them
  uint64_t inherited_bytes;  // bytes of the lists that came with the heap, as far as allocated_by_this_thread() has
                             // found them
  uint64_t lists_since;      // the value of sample_changes when the heap last had no lists
  ZeroingPace zeroing;       // of this heap's large callocs
  uint64_t as_asked_until;   // until handed_out_bytes reaches this, sample distances are drawn without back-off
                             // (sample_growth.h)
  uint32_t growths_seen;     // GrowthWatch::times() at the last draw; 0: the thread has not drawn yet
};

struct ThreadHeap {
  // Invariants, under slow_lock (verify.h); 4 and 5 as the owner sees them:
  //  1. the spans on a class's lists, and its current span, are owned by this heap and have that class and state.
  //  2. body->ready[c] is null or the current span of the class, and null while there is a stash.
  //  3. low_water is at most the number of available spans.
  //  4. the stash has stash_count blocks, and some while a sample is due. It and the thread free list have blocks of the
  //     current span, unless the class is mixed.
  //  5. foreign has foreign_count blocks; foreign_bytes is their sum over all classes.
  // Spans that got their first remote free. Any thread pushes, the owner empties the stack. The push releases and the
  // exchange that empties it acquires (both are seq_cst, for rule 4 of remote.h).
  alignas(kCacheLineBytes) std::atomic<Span*> pending{nullptr};
  std::atomic<uint32_t> pending_count{0};
  std::atomic<uint32_t> complete_count{0};  // pending spans with all live blocks freed: an estimate
  std::atomic<uint32_t> reclaim_at{8};      // at this complete_count other threads try to reclaim spans for this heap
                                            // (remote.cc)
  std::atomic<HeapState> state{HeapState::kActive};

  alignas(kCacheLineBytes) OwnerLock slow_lock;
  std::atomic<ThreadCache*> cache{nullptr};  // its thread's cache, which no other thread may dereference
                                             // (lost_threads.h); or &body->kept; or null
  unsigned shard = 0;
  uint32_t slow_entries = 0;      // slow-path entries since collection was last considered
  std::atomic<int32_t> thread_id{0};  // of its current or last thread; written under the registry lock
  uint64_t collected_ns = 0;      // when the last collection was done
  size_t foreign_bytes = 0;       // bytes of foreign blocks in all classes
  uint64_t handed_out_bytes = 0;  // bytes given to its thread, in lists and large blocks: the clock of the sampler
  uint64_t sample_at = 0;         // the next sample point on that clock
  uint64_t sample_base = 0;       // sample_at was drawn with the mean sample_base << sample_stretch; the drawing code
                                  // sets all three
  uint64_t due_interval = 0;      // the mean with which the sample that is being taken was drawn
  uint64_t random_state = 0;
  void* recorder = nullptr;       // belongs to core/api: records the samples of the thread that has the heap
  uint64_t sample_changes = 0;    // the value of sample_changes when the distance was drawn
  uint8_t sample_stretch = 0;
  uint32_t due_home = 0;          // home of the sample that is being taken (homes.h)
  uint32_t parked_bytes = 0;      // bytes of its spans, while it is abandoned (kParked)
  std::atomic<uint64_t> remote_frees{0};  // blocks that its threads have published; written by the owner
  std::atomic<uint64_t> copies{0};        // blocks that realloc had to copy, by its threads; written by the owner
  std::atomic<uint64_t> copied_bytes{0};
  size_t cached_bytes = 0;        // this heap's share of the global count, as of the last collection
  ThreadHeap* next_all = nullptr;
  ThreadHeap* next_idle = nullptr;
  HeapBody* body = nullptr;       // never null, never changes
  uint32_t detached_spans = 0;    // spans on none of its lists because their pages are being purged (holes.h). Under
                                  // slow_lock
  // 0 while a thread has the heap. kBodyPurged: the body's pages are purged. kBodyGoes: a thread is purging them and
  // holds the heap. Under the registry lock.
  uint8_t idle_ticks = 0;
  // The process that thread_id belongs to; 0: the heap has no thread that could be lost (lost_threads.h). Under the
  // registry lock.
  std::atomic<int32_t> process_id{0};
};

static_assert(sizeof(ThreadHeap) == 4 * kCacheLineBytes);

// Checks the first two blocks of a free list before they are followed. This finds what a stray write or an invalid free
// has left at the front. Checking every link would cost a cache miss per block (docs/decisions/0001).
SEEMALLOC_ALWAYS_INLINE bool first_links_are_sound(const Span* span, const Block* first) {
  if (!span->is_carved_block(first)) return false;
  const Block* second = first->next;
  __asm__ volatile("" ::: "memory");  // makes the compiler load again: cheaper than saving registers
  return second == nullptr || span->is_carved_block(second);
}

enum class Draw {
  kSampled,      // the last point was reached
  kTimePassed,   // the interval may be shorter again
  kNewInterval,  // the option has changed: sample_base becomes the new value
};
// Called with a heap that needs a new sample point: sets sample_at. core/api sets this pointer once at start. Until
// then, and in the minimal library, nothing is sampled.
extern void (*draw_sample_distance)(ThreadHeap& heap, Draw reason);

// Changes that heaps must notice. The upper half counts changes of the option; distances drawn before such a change are
// stale. The lower half counts the times at which backed-off distances had to be drawn again. Distances are
// exponential, so the rest of one may be drawn again at any time, as long as the decision does not depend on the
// position of its point: never between finding that a list holds the point and taking that sample.
extern std::atomic<uint64_t> sample_changes SEEMALLOC_HIDDEN;
SEEMALLOC_NOINLINE void redraw_sample(ThreadHeap& heap);
SEEMALLOC_NOINLINE void relax_sample(ThreadHeap& heap);
SEEMALLOC_ALWAYS_INLINE bool sample_changes_seen(const ThreadHeap& heap) {
  return SEEMALLOC_LIKELY(heap.sample_changes == sample_changes.load(std::memory_order_relaxed));
}
SEEMALLOC_ALWAYS_INLINE void redraw_if_stale(ThreadHeap& heap) {
  if (!sample_changes_seen(heap)) redraw_sample(heap);
}
SEEMALLOC_ALWAYS_INLINE void relax_if_due(ThreadHeap& heap) {
  if (!sample_changes_seen(heap)) relax_sample(heap);
}

// The outcome of refill: one block; or the caller's allocation is the sample (due_interval and due_home describe it);
// or no memory.
enum class Refill { kBlock, kSample, kNoMemory };

// The thread free list of `size_class` is empty: takes a block for the caller and puts the next list into the thread
// cache. (If the outcome is a sample, the list that follows it may have been put there too.)
// If may_sample is false, a sample that is due is not recorded (there is no memory for it).
// Requires: the calling thread owns `heap`.
Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample = true);

// The last store of take_freed: a thread that sees this list also sees the span without it (current_spans.h).
SEEMALLOC_ALWAYS_INLINE void set_taken_list(Block** head, Block* list) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __asm__ volatile("" ::: "memory");  // x86 keeps stores in order
  *head = list;
#else
  __atomic_store_n(head, list, __ATOMIC_RELEASE);
#endif
}

// Decrements the counter. Returns true if it was 0.
SEEMALLOC_ALWAYS_INLINE bool count_down(uint32_t& counter) {
#if defined(__x86_64__)
  bool ended;  // decremented in memory: otherwise the compiler would save registers for it
  __asm__ volatile("subl $1, %0" : "+m"(counter), "=@ccc"(ended));
  return ended;
#else
  return counter-- == 0;
#endif
}

// The thread free list is empty, but blocks of its span have been freed since it was handed over: they become the next
// list. Takes no lock and does only a few loads and stores, because a class of large blocks comes here with every
// malloc.
// Returns null if refill has to decide. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE Block* take_freed(ThreadHeap& heap, size_t size_class) {
  Span* span = load_racing(heap.body->ready[size_class]);  // loaded after the end of the list has been seen
                                                           // (current_spans.h)
  if (span == nullptr) return nullptr;
  Block* first = span->free_list;
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  if (count_down(heap.body->freed_lists[size_class])) return nullptr;  // refill sets it anew
  uint64_t clock = heap.handed_out_bytes + uint64_t{span->free_blocks_of_current()} * span->block_bytes;
  if (clock >= heap.sample_at) {
    heap.body->freed_lists[size_class]++;  // no list is handed out
    return nullptr;
  }
  heap.handed_out_bytes = clock;
  store_racing(span->free_list, static_cast<Block*>(nullptr));
  span->set_all_live();
  set_taken_list(&thread_cache.heads[size_class], first->next);
  return first;
}

// Handles the case that the current span is used up and another span has freed blocks: the short form of refill.
// Returns null if refill has to decide. Requires: the calling thread owns `heap`, and take_freed has just returned
// null.
Block* take_available(ThreadHeap& heap, size_t size_class);

// A block of `bytes` is being allocated outside the lists (a large block). Returns true if it is not a sample. On false
// nothing has been done, and large_sample_due() decides. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE bool pass_sample(ThreadHeap& heap, size_t bytes) {
  uint64_t clock = heap.handed_out_bytes + bytes;
  if (SEEMALLOC_UNLIKELY(clock >= heap.sample_at) || !sample_changes_seen(heap)) return false;
  heap.handed_out_bytes = clock;
  return true;
}
// Counts the block as pass_sample() does. Returns true if it is the sample.
bool large_sample_due(ThreadHeap& heap, size_t bytes);

// Called by slow paths of free, with no lock held, in a child of fork that has no helper thread yet; otherwise null.
// Set by core/api.
extern std::atomic<void (*)()> on_slow_free SEEMALLOC_HIDDEN;
inline void note_slow_free() {
  if (void (*notice)() = on_slow_free.load(std::memory_order_relaxed); SEEMALLOC_UNLIKELY(notice != nullptr)) notice();
}

// The countdown of a span that this heap owns has reached zero: moves the span to the available list, or releases it if
// it is empty.
void span_countdown_slow(ThreadHeap& heap, Span* span) noexcept;

// Returns the heap of the calling thread. Makes or recycles one if the thread has none. Returns null if the OS refuses
// memory.
ThreadHeap* adopt_heap();
// The calling thread is ending. If its spans are few, the heap keeps them for the next thread. Otherwise, or if no
// thread takes the heap before the next tick, every span goes to the central lists or the page heap.
void abandon_heap(ThreadHeap& heap);

// Gives half of the spans that were not needed since the last call to the central lists or the page heap; more while
// all heaps together exceed the budget.
// Requires: the calling thread owns `heap`.
void collect(ThreadHeap& heap, bool everything);
// Free bytes kept by all thread heaps, as of their last collections.
size_t cached_bytes_total();

// The option has changed: each heap redraws its next sample point at its next slow-path entry.
void invalidate_sample_distances();
// Does the same if any distance is backed off. Called when the heap has grown, and when time has passed.
void redraw_stretched_samples();

// ---- for remote.cc, registry.cc and statistics.cc: under slow_lock ----

// Makes a span of the class; null when out of memory. The caller sets the owner and publishes it.
Span* new_small_span(unsigned shard, unsigned size_class, unsigned growth, pages::SpanKind kind);
// Carves the next blocks from the span's untouched end. Returns their number; *first is their list, null-terminated.
uint32_t carve(Span* span, Block** first);
// Puts a span that this heap has just got on the available or the full list, depending on whether it has free blocks.
void file_owned_locked(ThreadHeap& heap, Span* span);
// Returns `count` freed blocks to a span of this heap.
void return_blocks_locked(ThreadHeap& heap, Span* span, BlockList list, uint32_t count);
// Releases a span to the page heap. Requires: it has no live blocks and is on none of its owner's lists.
void retire(Span* span);
// Takes over all blocks that other threads have freed to this heap.
void drain_pending_locked(ThreadHeap& heap);
// The heap's thread is gone: releases its spans, to the central lists, or to the page heap if they are empty. A span
// with a remote free under way stays.
void release_spans_locked(ThreadHeap& heap);
// The same for the lists and spans of a heap whose thread has ended, or does not exist after fork. Leaves the heap a
// zombie.
void release_everything(ThreadHeap& heap);
// Detaches the heap and its lists from the calling thread, which is ending: the lists move to body->kept. Requires:
// slow_lock.
void take_from_this_thread(ThreadHeap& heap);
// The calling thread is ending: keeps the heap as it is for the next thread. On success heap.parked_bytes is the size
// of the spans that it keeps. Returns false, and the heap stays this thread's, if that would keep more than
// `most_bytes` of spans from other threads.
bool park(ThreadHeap& heap, size_t most_bytes);
// True if the option `sample` has changed since the heap had no lists: the blocks in them were counted under the old
// value.
bool has_older_lists(const ThreadHeap& heap);
// Makes the heap the calling thread's, with the lists that it has if it was abandoned.
void give_to_this_thread(ThreadHeap& heap);
// A remote free has found that the owner's thread is gone: releases the spans that it left behind. Requires: no lock
// held.
void hand_on_zombie(ThreadHeap& heap);

inline constexpr uint8_t kBodyPurged = UINT8_MAX, kBodyGoes = UINT8_MAX - 1;
// Purges the memory of heaps that have had no thread for some ticks. Makes system calls. Requires: no lock held.
void purge_idle_bodies();

// Releases the empty spans that threads keep for their next refill, one per class. Requires: no lock held.
void retire_empty_spans();

// Empties the abandoned heaps that no thread has taken yet. Requires: no lock held.
void release_parked();

// How often a thread free list of the class ran out: in heaps that no thread has any more (settled_refills), and in
// this heap (refills_of).
uint64_t settled_refills(unsigned size_class);
void forget_refills_in_child();
uint64_t refills_of(const ThreadHeap& heap, unsigned size_class);

// Bytes that were handed to threads and that the program never got: left in lists when the threads ended, or samples
// that were not taken.
uint64_t returned_unused_bytes();
void count_returned_unused(uint64_t bytes);

// All heaps ever made, newest first; the list never shrinks. The registry lock protects their states.
ThreadHeap* all_heaps();
// Number of heaps that have a thread.
unsigned active_heaps();
Lock& registry_lock();
// Bytes that heaps handed out before their current (or last) thread, and bytes that threads got without a heap.
// Requires: the registry lock.
uint64_t handed_out_elsewhere();
// Counts bytes given to a thread that is past its last destructors, or for whose heap there was no memory.
void count_handed_out_heapless(uint64_t bytes);

void lock_for_fork();
void unlock_after_fork_parent();
// In the child: the other threads are gone; this thread abandons their heaps on their behalf.
void unlock_after_fork_child();

}  // namespace seemalloc::heap
