// ThreadHeap: what one thread owns. Its malloc lists are in thread-local memory (ThreadCache), its spans here.
//
// malloc pops from a list that nobody else pushes to; free pushes onto the span's own list. So every list handed over
// has a known length, and everything rare (refill, remote frees, samples, collection) happens where a list ends.
//
// Who calls: core/api's slow paths. Heaps are recycled and never unmapped: a stale pointer to one stays readable.
// Threads: the owner, holding slow_lock; another thread only holding slow_lock and only for spans without live blocks
// (remote.cc), or to take a span off its list, or from a class that is not in use, and put it back (holes.h, current_spans.h). Two
// paths of the owner run without it: the fast ones, which touch heads[], and free_list and countdown of spans they own; and
// take_freed, which touches its current span only.
// `large` has a lock of its own.
// Lock order: registry → slow_lock → central list → page heap shard → arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

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

// Thread-local part: all that malloc touches. All zero at first: a new thread, or code that runs before thread-local
// memory is initialised (ifunc resolvers), finds every list empty and so enters the slow path.
struct ThreadCache {
  ThreadHeap* heap = nullptr;
  Block* heads[kClassCount] = {};
  bool finished = false;  // the thread's heap is gone: it is past its last destructors
};
#define SEEMALLOC_THREAD_CACHE_SYMBOL "seemalloc_thread_cache"  // list_head.h addresses it by hand
extern constinit thread_local ThreadCache thread_cache __asm__(SEEMALLOC_THREAD_CACHE_SYMBOL) __attribute__((tls_model("initial-exec")));

enum class HeapState : uint8_t {
  kActive,  // has a thread
  kParked,  // its thread is gone; what it has waits for the next thread until a tick
  kZombie,  // its thread is gone; whoever finishes a remote free to it hands its spans on
};

struct ClassState {
  Span* current;         // the malloc list's blocks come from it
  Block* foreign;        // freed here, blocks of other threads' spans: the next malloc list, or published (remote.h)
  uint32_t foreign_count;
  uint32_t refills;      // lists' ends, not yet in settled_refills(); without those that take_freed has met since the last refill
  Block* stash;          // the rest of a list that was cut at a sample point
  uint32_t stash_count;
  bool mixed;            // malloc list and stash are not current's: of lending spans, or foreign
  uint8_t sample_due;    // the next allocation of this class is a sample: 1 + the stretch of its interval; else 0
  uint8_t borrowed;      // lists taken from lending spans so far
  uint32_t low_water;    // fewest available spans since the last collection
  uint32_t last_use;     // of the current span, as the purger saw it (current_spans.h)
  SpanList available;    // spans with free blocks, the one that became so first in front
  SpanList full;         // spans to look at once enough of their blocks are freed
};

// Takes a span off the available list, of which there may be fewer now than ever since the last collection.
inline void remove_available(ClassState& cs, Span* span) {
  cs.available.remove(span);
  if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
}

inline constexpr uint32_t kMaxForeignBlocks = 16;

// The large part of a heap. All zero while no thread has it, but for what may become zero (`zeroing`), so its pages can go back to the system.
struct HeapBody {
  Span* ready[kClassCount];  // for take_freed: a class's current; null while a stash or a sample comes first, or a purger wants it
  uint32_t freed_lists[kClassCount];  // take_freed may still hand out so many before refill must look at the rest
  uint16_t freed_lists_at_first[kClassCount];  // what that was when refill last set it
  ClassState classes[kClassCount];
  LargeCache large;
  ThreadCache kept;  // between two threads: the lists of the one that had the heap, for the next, or until they are handed on
  uint64_t inherited_bytes;  // of the lists that came with the heap, what allocated_by_this_thread() knows of
  uint64_t lists_since;      // sample_changes when it last had no lists
  ZeroingPace zeroing;       // of this heap's large callocs
  uint64_t as_asked_until;   // of handed_out_bytes: until then samples are drawn as asked (sample_growth.h)
  uint32_t growths_seen;     // 0: the thread's first distance is still to be drawn
};

struct ThreadHeap {
  // Spans that got their first remote free; pushed by any thread, emptied by the owner. Pairs: push release, empty acquire.
  alignas(kCacheLineBytes) std::atomic<Span*> pending{nullptr};
  std::atomic<uint32_t> pending_count{0};
  std::atomic<uint32_t> complete_count{0};  // of them, those whose live blocks have all been freed: estimated
  std::atomic<uint32_t> reclaim_at{8};      // so many of those, and others look whether this heap sleeps (remote.cc)
  std::atomic<HeapState> state{HeapState::kActive};

  alignas(kCacheLineBytes) OwnerLock slow_lock;
  std::atomic<ThreadCache*> cache{nullptr};  // its thread's, for nobody else to follow (lost_threads.h); body->kept; or null
  unsigned shard = 0;
  uint32_t slow_entries = 0;      // since collection was last considered
  std::atomic<int32_t> thread_id{0};  // its last thread's; written under the registry lock
  uint64_t collected_ns = 0;      // when it was last done
  size_t foreign_bytes = 0;       // in all classes
  uint64_t handed_out_bytes = 0;  // to its thread, in lists and large blocks: the clock that samples go by
  uint64_t sample_at = 0;         // the next sample point on that clock
  uint64_t sample_base = 0;       // the mean it was drawn with is this << sample_stretch; whoever draws sets all three
  uint64_t due_interval = 0;      // the mean with which the sample that is being taken was drawn
  uint64_t random_state = 0;
  void* recorder = nullptr;       // core/api's, for the samples of the thread that has the heap
  uint64_t sample_changes = 0;    // those that the distance was drawn after
  uint8_t sample_stretch = 0;
  uint32_t due_home = 0;          // of the sample that is being taken (homes.h)
  uint32_t parked_bytes = 0;      // of its spans, while it is parked
  std::atomic<uint64_t> remote_frees{0};  // blocks its threads have published; written by the owner
  std::atomic<uint64_t> copies{0};        // blocks that realloc had to copy, by its threads; written by the owner
  std::atomic<uint64_t> copied_bytes{0};
  size_t cached_bytes = 0;        // this heap's share of the global count, as of the last collection
  ThreadHeap* next_all = nullptr;
  ThreadHeap* next_idle = nullptr;
  HeapBody* body = nullptr;       // never null, never changes
  uint32_t detached_spans = 0;    // whose pages are being purged: on none of its lists (holes.h). slow_lock
  uint8_t idle_ticks = 0;         // 0 with a thread; kBodyPurged: the body's pages are gone; kBodyGoes: who has them go has the heap. Registry lock
  std::atomic<int32_t> process_id{0};  // whose thread thread_id is; 0: nobody's who might be lost (lost_threads.h). Registry lock
};

static_assert(sizeof(ThreadHeap) == 4 * kCacheLineBytes);

// What a stray write or an invalid free has left in front of a free list is met before it is followed. Checking every link
// would cost a cache miss each (docs/decisions/0001).
SEEMALLOC_ALWAYS_INLINE bool first_links_are_sound(const Span* span, const Block* first) {
  if (!span->is_carved_block(first)) return false;
  const Block* second = first->next;
  __asm__ volatile("" ::: "memory");  // what was loaded is loaded again: cheaper than to save registers for it
  return second == nullptr || span->is_carved_block(second);
}

enum class Draw {
  kSampled,      // the last point was reached
  kTimePassed,   // the interval may be shorter again
  kNewInterval,  // the option has changed: takes it over as sample_base
};
// Called with the heap that needs a new sample point: sets sample_at. Set once at start by core/api; until then, and in
// the minimal library, nothing is sampled.
extern void (*draw_sample_distance)(ThreadHeap& heap, Draw reason);

// What heaps have to hear of. Upper half: counts changes of the option, after which what was drawn before is stale. Lower
// half: times at which stretched distances had to be drawn again. Distances are exponential, so that what is
// left of one may be drawn again at any time, but not because of where its point lies: never between seeing that a list
// holds the point and taking it.
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

// The outcome of refill: one block, or the news that this allocation is the sample (due_interval and due_home tell of what kind), or
// no memory.
enum class Refill { kBlock, kSample, kNoMemory };

// The malloc list of `size_class` is empty: takes a block for the caller and hands the next list to the cache. (For a
// sample too the list that follows it may have been handed over.)
// With may_sample false a sample that is due goes unrecorded (there is no memory for it).
// Requires: the calling thread owns `heap`.
Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample = true);

// The last store of take_freed: who finds this list finds the span without it (current_spans.h).
SEEMALLOC_ALWAYS_INLINE void set_taken_list(Block** head, Block* list) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __asm__ volatile("" ::: "memory");  // x86 keeps stores in order
  *head = list;
#else
  __atomic_store_n(head, list, __ATOMIC_RELEASE);
#endif
}

// One less; true when there was none left.
SEEMALLOC_ALWAYS_INLINE bool count_down(uint32_t& counter) {
#if defined(__x86_64__)
  bool ended;  // in memory, for otherwise the compiler would save registers for it
  __asm__ volatile("subl $1, %0" : "+m"(counter), "=@ccc"(ended));
  return ended;
#else
  return counter-- == 0;
#endif
}

// The malloc list is empty, but blocks of its span have been freed since it was handed over: they are the next list. No
// lock, and no more than a few loads and stores, because a class of large blocks comes here with every malloc. Null when
// refill has to decide. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE Block* take_freed(ThreadHeap& heap, size_t size_class) {
  Span* span = load_racing(heap.body->ready[size_class]);  // after the list's end has been seen (current_spans.h)
  if (span == nullptr) return nullptr;
  Block* first = span->free_list;
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  if (count_down(heap.body->freed_lists[size_class])) return nullptr;  // refill sets it anew
  uint64_t clock = heap.handed_out_bytes + uint64_t{span->free_blocks_of_current()} * span->block_bytes;
  if (clock >= heap.sample_at) {
    heap.body->freed_lists[size_class]++;  // none is handed out
    return nullptr;
  }
  heap.handed_out_bytes = clock;
  store_racing(span->free_list, static_cast<Block*>(nullptr));
  span->set_all_live();
  set_taken_list(&thread_cache.heads[size_class], first->next);
  return first;
}

// The same where all of the current span is used up and another one has freed blocks: the short form of refill. Null when that
// has to decide. Requires: the calling thread owns `heap`, and take_freed has just answered null.
Block* take_available(ThreadHeap& heap, size_t size_class);

// A block of `bytes` is being allocated outside the lists (a large one): true when it is no sample. False: nothing has been
// done, large_sample_due() tells. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE bool pass_sample(ThreadHeap& heap, size_t bytes) {
  uint64_t clock = heap.handed_out_bytes + bytes;
  if (SEEMALLOC_UNLIKELY(clock >= heap.sample_at) || !sample_changes_seen(heap)) return false;
  heap.handed_out_bytes = clock;
  return true;
}
// The same: true when it is the sample.
bool large_sample_due(ThreadHeap& heap, size_t bytes);

// In a child of fork that has no helper yet: called by slow paths of free, with no lock held. Else null. Set by core/api.
extern std::atomic<void (*)()> on_slow_free SEEMALLOC_HIDDEN;
inline void note_slow_free() {
  if (void (*notice)() = on_slow_free.load(std::memory_order_relaxed); SEEMALLOC_UNLIKELY(notice != nullptr)) notice();
}

// The countdown of a span this heap owns reached zero: files it as available, or gives it back when it is empty.
void span_countdown_slow(ThreadHeap& heap, Span* span) noexcept;

// The heap of the calling thread, made (or recycled) if it has none; null when the OS refuses memory.
ThreadHeap* adopt_heap();
// The calling thread is ending: the heap goes to the next thread, with its spans if they are few. Else, and when no thread
// comes, every span goes to the central lists or the page heap.
void abandon_heap(ThreadHeap& heap);

// Hands on half of the spans that were not needed since the last call; more while the budget of all heaps is exceeded.
// Requires: the calling thread owns `heap`.
void collect(ThreadHeap& heap, bool everything);
// Free bytes kept by all thread heaps, as of their last collections.
size_t cached_bytes_total();

// Redraws every heap's next sample point at its next slow-path entry: the option has changed.
void invalidate_sample_distances();
// The same, if any distance is stretched: the heap has grown; or time has passed.
void redraw_stretched_samples();

// ---- for remote.cc, registry and statistics: under slow_lock ----

// A new span of the class for this heap, published; null when out of memory.
Span* new_small_span(unsigned shard, unsigned size_class, unsigned growth, pages::SpanKind kind);
// Cuts the next blocks from the span's untouched end; returns how many, linked and null-terminated from *first.
uint32_t carve(Span* span, Block** first);
// Files a span that has become this heap's by what it has left.
void file_owned_locked(ThreadHeap& heap, Span* span);
// `count` blocks come back to a span of this heap.
void return_blocks_locked(ThreadHeap& heap, Span* span, BlockList list, uint32_t count);
// A span without live blocks, off its owner's lists, goes back to the page heap.
void retire(Span* span);
// Takes in what other threads freed.
void drain_pending_locked(ThreadHeap& heap);
// The heap's thread is gone: hands on every span that can be. The rest waits for a remote free under way.
void release_spans_locked(ThreadHeap& heap);
// The same for a heap whose thread has ended or does not exist after fork; leaves it a zombie.
void release_everything(ThreadHeap& heap);
// The calling thread, which is ending, has no heap and no lists any more: they are where the heap keeps them. Requires: slow_lock.
void take_from_this_thread(ThreadHeap& heap);
// The calling thread is ending: the next one may have its heap as it is. False, and it is still its, when that would keep more than
// `most_bytes` of spans from others; else heap.parked_bytes is what it keeps.
bool park(ThreadHeap& heap, size_t most_bytes);
// The option `sample` has changed since the heap had no lists: what they hold was handed out by the old one.
bool has_older_lists(const ThreadHeap& heap);
// The calling thread's heap from here on, and the lists that a parked one has.
void give_to_this_thread(ThreadHeap& heap);
// A remote free found the owner's thread gone: hands on what it left behind. Requires: no lock held.
void hand_on_zombie(ThreadHeap& heap);

inline constexpr uint8_t kBodyPurged = UINT8_MAX, kBodyGoes = UINT8_MAX - 1;
// Gives the memory of heaps back that have had no thread for some ticks. Makes system calls. Requires: no lock held.
void purge_idle_bodies();

// The empty spans that threads keep, one per class, for their next refill go back. Requires: no lock held.
void retire_empty_spans();

// Parked heaps, which no thread has taken yet, hand on what they have. Requires: no lock held.
void release_parked();

// How often a list of the class ended: by heaps that are in nobody's hands any more, and by the heap.
uint64_t settled_refills(unsigned size_class);
void forget_refills_in_child();
uint64_t refills_of(const ThreadHeap& heap, unsigned size_class);

// Bytes that were handed to threads, and that the program had not taken when they ended, or never got.
uint64_t returned_unused_bytes();
void count_returned_unused(uint64_t bytes);

// All heaps ever made, newest first; never shrinks. The registry lock keeps their states.
ThreadHeap* all_heaps();
// Those that have a thread.
unsigned active_heaps();
Lock& registry_lock();
// What heaps handed out before their present, or last, thread, and threads got without one. Requires: the registry lock.
uint64_t handed_out_elsewhere();
// To a thread that is past its last destructors, or for whose heap there was no memory.
void count_handed_out_heapless(uint64_t bytes);

void lock_for_fork();
void unlock_after_fork_parent();
// In the child: the other threads are gone; their heaps are abandoned on their behalf.
void unlock_after_fork_child();

}  // namespace seemalloc::heap
