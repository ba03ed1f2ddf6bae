// What the operators and glibc's views of the heap do, for their second names (core/compat/tc_malloc.cc). Under the first they may be the
// program's own, and call the second.
//
// Threads: any.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <new>

#include "core/heap/statistics.h"

namespace seemalloc {

// operators.cc
void* call_new(size_t bytes);
void* call_new(size_t bytes, const std::nothrow_t&) noexcept;
void* call_new(size_t bytes, std::align_val_t alignment);
void* call_new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept;

// introspect.cc
struct mallinfo2 heap_info();
// The same, from figures that were taken before.
struct mallinfo2 heap_info(const heap::Statistics& statistics);
struct mallinfo heap_info_in_int();
int accept_mallopt(int parameter, int value);

}  // namespace seemalloc
