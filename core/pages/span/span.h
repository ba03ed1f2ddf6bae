// Span: a run of pages cut into blocks of one size class, or one large block. The record is stored
// outside the pages.
//
// The owner's free() touches only line 0; line 1 starts with the fields that other threads touch.
// Threads: local_free, countdown, bias and carved belong to the owner (a ThreadHeap, under its
// slow_lock for all but the fast path; the central list, under its lock, while unowned; the sampled
// heap, under its lock, when sampled). owner and remote are atomic. In a detached span, the list
// behind its first block and the holes belong to the purging thread (heap/maintenance/holes.h). An
// owner is never null, except in a record whose page was purged (span_pool.h): a thread without a
// heap compares its null with it.
// Invariants:
//  1. countdown + bias == live (modulo 2^32). Live are the blocks allocated to the program, blocks
//     on a thread's free list, in a stash or on the remote free list, and those in holes
//     (heap/maintenance/holes.h). A current span's countdown never reaches zero; that of an
//     available span does when all blocks except those in holes are free.
//  2. every carved block that is not live is on local_free exactly once.
//  3. remote == kUnowned only while owner is kNoOwner, and changes from it only under the central
//     list's lock.
#pragma once

#include <arch_words.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/pages/span/span_counts.h"

namespace seemalloc {

// A free block: its first word points to the next one.
struct Block {
  Block* next;
};

namespace pages {

struct Region;

enum class SpanKind : uint8_t {
  kForeign = 0,  // the null span: nothing of ours is at this address
  kFree,         // pages of ours without blocks
  kSmall,        // blocks of one class
  kSampled,      // blocks of one class, each recorded by the sampler
  kLarge,        // one block of whole pages inside a region
  kCachedLarge,  // a free kLarge span that a thread keeps for its next request
  kHuge,         // one block with a mapping of its own
};

enum class SpanState : uint8_t {
  kCurrent,    // the thread heap allocates from it
  kAvailable,  // on its owner's list (or, unowned, on the central list), has free blocks
  kFull,       // on no list until enough of its blocks are free
  // On no list while parts are purged (heap/maintenance/holes.h): blocks are freed, none is
  // allocated.
  kDetached,
};

// The functions of its free list and its counts are in the base.
struct alignas(kCacheLineBytes) Span : SpanCounts<Span> {
  // Invariant 4 (verify.h): block_bytes is the size of size_class, capacity is bytes / block_bytes,
  // carved ≤ capacity. Small and sampled spans.
  // Blocks freed by the owner since it last took the list: the local free list.
  Block* local_free;
  uintptr_t owner_;     // the ThreadHeap that may use the fast path, or kNoOwner. See owner()
  uint64_t reciprocal;  // of block_bytes, for is_block_start()
  uint32_t countdown;   // frees until the owner takes the slow path (free's only counter)
  uint32_t bias;        // live = countdown + bias
  uintptr_t start;
  uint32_t block_bytes;  // 0 for large and huge spans: see bytes
  union {
    uint32_t capacity;  // blocks that fit
    // kCachedLarge: when it was put into the cache (heap/thread/large_cache.h).
    uint32_t cached_epoch;
  };
  uint32_t carved;  // blocks ever cut, from the start of the span
  uint8_t size_class;
  SpanKind kind;
  SpanState state;
  bool known_zero;  // the pages read as zero, when the span comes from the page heap
  union {
    bool known_dense;       // kHuge: its memory was used before, and most of it is resident
    uint8_t sampled_shard;  // kSampled: the part that it belongs to (heap/spans/sampled.cc)
  };
  // unowned: its blocks are shared by many threads (heap/spans/central.h). See blocks_are_shared().
  bool blocks_are_shared_;
  union {
    uint32_t home_;  // kSmall: home of sampled blocks (heap/spans/homes.h); 0: none. See home()
    // kSampled: bytes of live blocks, by their requested sizes. See sampled_bytes().
    uint32_t sampled_bytes_;
  };

  // remote free list: see heap/slow_paths/remote.h.
  alignas(kCacheLineBytes) std::atomic<uint64_t> remote;
  Span* pending_next;  // on the owner's pending stack
  Span* next;          // on a list of the owner, central list or sampled heap
  Span* prev;
  Region* region;  // null for huge
  size_t bytes;    // of the whole run
  // Purged OS pages, counted from the first that the span touches; their blocks are on no list.
  uint32_t holes;
  uint32_t hole_blocks_;  // blocks that start in holes. See hole_blocks()
  union {
    uint32_t* sample_ids;  // kSampled: one per block
    uint32_t sample_id;    // kLarge, kHuge: 0 when not sampled
    struct {
      uint32_t since;            // when it became available (heap/maintenance/holes.h)
      uint32_t min_free_blocks;  // free blocks that make another search for holes worthwhile
    } hole_scan;                 // kSmall
  };

  SEEMALLOC_ALWAYS_INLINE const void* owner() const {
    return reinterpret_cast<const void*>(racy_load(owner_));
  }
  const void* owner_acquire() const {
    return reinterpret_cast<const void*>(__atomic_load_n(&owner_, __ATOMIC_ACQUIRE));
  }
  void set_owner(const void* owner) {
    DCHECK(reinterpret_cast<uintptr_t>(owner) > kNoOwner);
    __atomic_store_n(&owner_, reinterpret_cast<uintptr_t>(owner), __ATOMIC_RELEASE);
  }
  void clear_owner() { __atomic_store_n(&owner_, kNoOwner, __ATOMIC_RELEASE); }
  static constexpr uintptr_t kNoOwner = 1;

  // Changes under the central list's lock; a hint without it.
  bool blocks_are_shared() const { return __atomic_load_n(&blocks_are_shared_, __ATOMIC_RELAXED); }
  void set_blocks_are_shared(bool blocks_are_shared) {
    __atomic_store_n(&blocks_are_shared_, blocks_are_shared, __ATOMIC_RELAXED);
  }

  // Changes under the lock of the homes table; a hint without it.
  uint32_t home() const { return __atomic_load_n(&home_, __ATOMIC_RELAXED); }
  void set_home(uint32_t home) { __atomic_store_n(&home_, home, __ATOMIC_RELAXED); }

  // True when p is the start of a block: its offset is a multiple of block_bytes (Lemire's
  // divisibility test, which needs a multiplication instead of a division). Requires: p is in the
  // span, and the span is cut into blocks.
  SEEMALLOC_ALWAYS_INLINE bool is_block_start(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - start) * reciprocal < reciprocal;
  }
  // True when p is the start of a block that has been cut, for any p: the product's upper half is
  // the block's index (more than that for offsets beyond 32 bits).
  SEEMALLOC_ALWAYS_INLINE bool is_carved_block(const void* p) const {
    __extension__ using Product = unsigned __int128;
    Product product = static_cast<Product>(reinterpret_cast<uintptr_t>(p) - start) * reciprocal;
    return static_cast<uint64_t>(product) < reciprocal &&
           static_cast<uint64_t>(product >> 64) < carved;
  }
  void set_block_bytes(uint32_t block) {
    DCHECK(block != 0 && block <= bytes);
    block_bytes = block;
    capacity = static_cast<uint32_t>(bytes / block);
    reciprocal = UINT64_MAX / block + 1;
  }

  // Changes under the lock of the sampled class; a hint without it.
  uint32_t sampled_bytes() const { return __atomic_load_n(&sampled_bytes_, __ATOMIC_RELAXED); }
  void set_sampled_bytes(uint32_t sum) { __atomic_store_n(&sampled_bytes_, sum, __ATOMIC_RELAXED); }

  Block* block_at(uint32_t index) const {
    DCHECK(index < capacity);
    return reinterpret_cast<Block*>(start + size_t{index} * block_bytes);
  }
  bool contains(const void* p) const { return reinterpret_cast<uintptr_t>(p) - start < bytes; }
};
static_assert(sizeof(Span) == 2 * kCacheLineBytes);

// The spans of pages that are not ours, and of our pages that hold no block.
extern Span foreign_span;
extern Span free_span;

// A doubly linked list of spans, newest first. The caller's lock protects it.
class SpanList {
  // Invariant 1 (verify.h): next and prev agree with each other, and with the ends and the size of
  // the list.
 public:
  Span* front() const { return head_; }
  Span* back() const { return tail_; }
  uint32_t size() const { return size_; }

  void push_front(Span* span) {
    DCHECK(is_on_no_list(span));
    span->prev = nullptr;
    span->next = head_;
    (head_ != nullptr ? head_->prev : tail_) = span;
    head_ = span;
    size_++;
  }
  void push_back(Span* span) {
    DCHECK(is_on_no_list(span));
    span->next = nullptr;
    span->prev = tail_;
    (tail_ != nullptr ? tail_->next : head_) = span;
    tail_ = span;
    size_++;
  }
  void remove(Span* span) {
    DCHECK(size_ != 0);
    DCHECK(span->prev != nullptr ? span->prev->next == span : head_ == span);
    DCHECK(span->next != nullptr ? span->next->prev == span : tail_ == span);
    (span->prev != nullptr ? span->prev->next : head_) = span->next;
    (span->next != nullptr ? span->next->prev : tail_) = span->prev;
    span->next = span->prev = nullptr;
    size_--;
  }
  // The broken invariant, or null.
  const char* verify() const {
    const char* broken =
        "invariant span_list.1: the links of a list agree with its ends and its size";
    const Span* before = nullptr;
    uint32_t count = 0;
    for (const Span* span = head_; span != nullptr; before = span, span = span->next, count++) {
      if (span->prev != before || count == size_) return broken;
    }
    return before == tail_ && count == size_ ? nullptr : broken;
  }
  // For assertions: what is on a list has a neighbour, or is the list's only span.
  bool is_on_no_list(const Span* span) const {
    return span->prev == nullptr && span->next == nullptr && head_ != span;
  }

 private:
  Span* head_ = nullptr;
  Span* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace pages
}  // namespace seemalloc
