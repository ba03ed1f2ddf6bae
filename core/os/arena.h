// Memory for our own records (spans, heaps, stacks): bump allocation from the OS, never given back, always counted.
//
// Zeroed. Never comes from malloc, so it can be used below it. Freed records go to a Pool and come back from it.
// Threads: any; one lock per process, held for a few instructions (a system call when a chunk is used up).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/lock.h"

namespace seemalloc::os {

// `bytes` of zeroed memory aligned to `alignment` (a power of two, at most a page), or null when the OS refuses.
void* arena_allocate(size_t bytes, size_t alignment);
// The same, with all its pages present, as those of at most a page always are: memory that is read before it is written faults twice, and
// the second fault interrupts every CPU that runs the process (docs/decisions/0059).
void* arena_allocate_present(size_t bytes, size_t alignment);
// Gives memory for records when the kernel refuses a new mapping: zeroed, at least `bytes`, of size *got; null when refused. Set by
// core/pages/window.cc, whose regions lie at the end of a mapping that can grow. Called without the arena's lock.
extern void* (*arena_reserve)(size_t bytes, size_t* got);
// Bytes taken from the OS for records so far.
size_t arena_mapped_bytes();
// Bytes handed out to records so far; the rest of the last chunk is untouched and costs no memory.
size_t arena_used_bytes();
// For the fork handlers.
Lock& arena_lock();

// Records of one type, recycled. A record taken again keeps its old contents except the first word.
// Threads: callers hold a lock of their own around one Pool.
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
