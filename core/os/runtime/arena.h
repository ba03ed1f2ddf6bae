// Memory for our own records (spans, heaps, stacks): bump allocation from the OS, never returned,
// always counted.
//
// Zeroed. It never comes from malloc, so malloc itself can use it. Freed records go to a Pool,
// which reuses them. Threads: any; one lock per process, held for a few instructions (or a system
// call when a chunk is used up).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/runtime/lock.h"

namespace seemalloc::os {

// Returns `bytes` of zeroed memory aligned to `alignment` (a power of two, at most a page), or null
// when the OS refuses.
void* arena_allocate(size_t bytes, size_t alignment);
// The same, with all pages present (as pages of records up to one page always are). Memory that is
// read before it is written faults twice, and the second fault interrupts every CPU that runs the
// process (docs/decisions/0059).
void* arena_allocate_prefaulted(size_t bytes, size_t alignment);
// Provides memory for records when the kernel refuses a new mapping: zeroed, at least `bytes`, of
// size *got; null when refused. Set by core/pages/span/window.cc, whose regions are at the end of a
// mapping that can grow. Called without the arena's lock.
extern void* (*arena_fallback)(size_t bytes, size_t* got);
// Bytes mapped for records so far.
size_t arena_mapped_bytes();
// Bytes allocated to records so far. The rest of the last chunk is untouched and costs no memory.
size_t arena_used_bytes();
// For the fork handlers.
Lock& arena_lock();

// Pool: recycles records of one type. A reused record keeps its old contents, except for the first
// word.
// Threads: callers hold their own lock around a Pool.
template <typename T>
class Pool {
  static_assert(sizeof(T) >= sizeof(void*));

 public:
  constexpr Pool() = default;
  T* take() {
    if (free_ != nullptr) {
      Node* node = free_;
      free_ = node->next;
      return reinterpret_cast<T*>(node);
    }
    return static_cast<T*>(arena_allocate(sizeof(T), alignof(T)));
  }
  void give(T* record) {
    Node* node = reinterpret_cast<Node*>(record);
    node->next = free_;
    free_ = node;
  }

 private:
  struct Node {
    Node* next;
  };
  Node* free_ = nullptr;
};

}  // namespace seemalloc::os
