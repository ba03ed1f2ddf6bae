// The allocators that the process has beside this one: the C library's own, and another that is loaded behind us.
//
// Where our malloc is the process's, the C library's symbol table is changed: its malloc, free and their family lead to ours. Programs
// find those otherwise by RTLD_DEEPBIND or by a library's handle, and then give our blocks to the C library's free. Decision 0069.
//
// Threads: any, once meet_other_allocators() has returned; it is called once, before there can be a second thread.
#pragma once

#include <cstddef>

namespace seemalloc {

struct OtherAllocator {
  void (*free_block)(void* p) = nullptr;
  size_t (*usable_bytes)(void* p) = nullptr;

  bool exists() const { return free_block != nullptr; }
};

// Requires: as LoadedObject (core/os/loaded_object.h).
void meet_other_allocators();

// glibc's malloc, as it was before its names led to ours.
const OtherAllocator& glibc_allocator();
// One that cannot be asked which blocks are its: the first library behind us that has a free, or a C library that is not glibc.
const OtherAllocator& unknown_allocator();

}  // namespace seemalloc
