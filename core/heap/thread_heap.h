// ThreadHeap: what one thread owns. Its malloc lists are in thread-local memory (ThreadCache), its spans here.
//
// malloc pops from a list that nobody else pushes to; free pushes onto the span's own list. So every list handed over
// has a known length, and everything rare (refill, remote frees, samples, collection) happens where a list ends.
//
// Who calls: core/api's slow paths. Heaps are recycled and never unmapped: a stale pointer to one stays readable.
// Threads: the owner, holding slow_lock; another thread only holding slow_lock and only for spans without live blocks
// (remote.cc). The fast paths run without it: they touch heads[], and free_list and countdown of spans they own.
// Lock order: registry → slow_lock → central list → page heap shard → arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/heap/size_class.h"
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
extern constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec")));

enum class HeapState : uint8_t {
  kActive,  // has a thread
  kZombie,  // its thread is gone; whoever finishes a remote free to it hands its spans on
};

// Blocks of one span freed by a thread that does not own it, not yet published.
struct RemoteBatch {
  Span* span;
  Block* first;
  Block* last;
  uint32_t count;
};
inline constexpr unsigned kRemoteBatches = 16;
inline constexpr uint32_t kMaxBatchBlocks = 16;

struct ClassState {
  Span* current;         // the malloc list's blocks come from it
  Block* stash;          // the rest of a list that was cut at a sample point
  uint32_t stash_count;
  bool sample_due;       // the next allocation of this class is a sample
  uint8_t growth;        // log2 of the next span's size over the smallest
  uint32_t low_water;    // fewest available spans since the last collection
  SpanList available;    // spans with free blocks, the one that became so first in front
  SpanList full;         // spans to look at once enough of their blocks are freed
};

struct ThreadHeap {
  // Spans that got their first remote free; pushed by any thread, emptied by the owner. Pairs: push release, empty acquire.
  alignas(kCacheLineBytes) std::atomic<Span*> pending{nullptr};
  std::atomic<uint32_t> pending_count{0};
  std::atomic<uint32_t> reclaim_at{32};  // pending spans at which others look whether this heap sleeps (remote.cc)
  std::atomic<HeapState> state{HeapState::kActive};

  alignas(kCacheLineBytes) OwnerLock slow_lock;
  std::atomic<ThreadCache*> cache{nullptr};  // its thread's; null without a thread
  unsigned shard = 0;
  uint32_t slow_entries = 0;      // since collection was last considered
  uint64_t collected_ns = 0;      // when it was last done
  uint32_t batched_blocks = 0;    // in batches
  int64_t sample_distance = 0;    // allocated bytes left until the next sample point
  uint64_t sample_interval = 0;   // the mean it was drawn with; whoever draws sets both
  uint64_t random_state = 0;
  void* recorder = nullptr;       // core/api's, for the samples of the thread that has the heap
  uint64_t sample_generation = 0;  // the interval's generation the distance was drawn with
  size_t cached_bytes = 0;        // this heap's share of the global count, as of the last collection
  ThreadHeap* next_all = nullptr;
  ThreadHeap* next_idle = nullptr;
  RemoteBatch batches[kRemoteBatches] = {};
  ClassState classes[kClassCount] = {};
};

// Called with the heap that needs a new sample point: sets sample_distance. Set once at start by core/api; until then,
// and in the minimal library, nothing is sampled.
extern void (*draw_sample_distance)(ThreadHeap& heap);

// The outcome of refill: one block, or the news that this allocation is the sample, or no memory.
enum class Refill { kBlock, kSample, kNoMemory };

// The malloc list of `size_class` is empty: takes a block for the caller and hands the next list to the cache. (For a
// sample too the list that follows it may have been handed over.)
// With may_sample false a sample that is due goes unrecorded (there is no memory for it).
// Requires: the calling thread owns `heap`.
Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample = true);

// A block of `bytes` is being allocated outside the lists (a large one): true when it is the sample.
// Requires: the calling thread owns `heap`.
bool large_sample_due(ThreadHeap& heap, size_t bytes);

// The countdown of a span this heap owns reached zero: files it as available, or gives it back when it is empty.
void span_countdown_slow(ThreadHeap& heap, Span* span);

// The heap of the calling thread, made (or recycled) if it has none; null when the OS refuses memory.
ThreadHeap* adopt_heap();
// The calling thread is ending: every span goes to the central lists or the page heap, the heap to the next thread.
void abandon_heap(ThreadHeap& heap);

// Hands on half of the spans that were not needed since the last call; more while the budget of all heaps is exceeded.
// Requires: the calling thread owns `heap`.
void collect(ThreadHeap& heap, bool everything);
// Free bytes kept by all thread heaps, as of their last collections.
size_t cached_bytes_total();

// Redraws every heap's next sample point at its next slow-path entry (the interval has changed).
void invalidate_sample_distances();

// ---- for remote.cc, registry and statistics: under slow_lock ----

// A new span of the class for this heap, published; null when out of memory.
Span* new_small_span(unsigned shard, unsigned size_class, unsigned growth, pages::SpanKind kind);
// Cuts the next blocks from the span's untouched end; returns how many, linked and null-terminated from *first.
uint32_t carve(Span* span, Block** first);
// Files a span that has become this heap's by what it has left.
void file_owned_locked(ThreadHeap& heap, Span* span);
// `count` blocks at `first` come back to a span of this heap.
void return_blocks_locked(ThreadHeap& heap, Span* span, Block* first, uint32_t count);
// A span without live blocks, off its owner's lists, goes back to the page heap.
void retire(Span* span);
// Takes in what other threads freed.
void drain_pending_locked(ThreadHeap& heap);
// The heap's thread is gone: hands on every span that can be. The rest waits for a remote free under way.
void release_spans_locked(ThreadHeap& heap);
// The same for a heap whose thread has ended or does not exist after fork; leaves it a zombie.
void release_everything(ThreadHeap& heap);
// A remote free found the owner's thread gone: hands on what it left behind. Requires: no lock held.
void hand_on_zombie(ThreadHeap& heap);

// All heaps ever made, newest first; never shrinks. The registry lock keeps their states.
ThreadHeap* all_heaps();
Lock& registry_lock();

void lock_for_fork();
void unlock_after_fork_parent();
// In the child: the other threads are gone; their heaps are abandoned on their behalf.
void unlock_after_fork_child();

}  // namespace seemalloc::heap
