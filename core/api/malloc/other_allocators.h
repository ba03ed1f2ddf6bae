// The other allocators of the process: glibc's own, and one that is loaded between this library and
// glibc.
//
// If our malloc is the process's, glibc's symbol table is changed in memory: its malloc, free and
// their family resolve to our functions. Otherwise programs that look them up with RTLD_DEEPBIND or
// by glibc's handle would pass our blocks to glibc's free. Decision 0069.
//
// Threads: any, after find_other_allocators() has returned. That is called once, before the process
// can have a second thread.
#pragma once

#include <cstddef>

namespace seemalloc {

struct OtherAllocator {
  void (*free_block)(void* p) = nullptr;
  size_t (*usable_bytes)(void* p) = nullptr;

  bool exists() const { return free_block != nullptr; }
};

// Requires the same as LoadedObject (core/os/process/loaded_object.h).
void find_other_allocators();

// glibc's own functions, by their addresses from before the change.
const OtherAllocator& glibc_allocator();
// An allocator that cannot tell which blocks it owns: the first library between us and glibc that
// has a free.
const OtherAllocator& unknown_allocator();

}  // namespace seemalloc
