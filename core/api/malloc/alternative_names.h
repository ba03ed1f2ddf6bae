// The functions of the operators and of glibc's views of the heap, for their second names
// (core/compat/tc_malloc.cc). The first names may resolve to the program's own functions, which may
// call the second.
//
// Threads: any.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <new>

#include "core/heap/reports/statistics.h"

namespace seemalloc {

// operators.cc
void* call_new(size_t bytes);
void* call_new(size_t bytes, const std::nothrow_t&) noexcept;
void* call_new(size_t bytes, std::align_val_t alignment);
void* call_new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept;

// introspect.cc
struct mallinfo2 mallinfo2_figures();
// The same, from figures that were taken before.
struct mallinfo2 mallinfo2_figures(const heap::Statistics& statistics);
struct mallinfo heap_info_in_int();
int check_mallopt(int parameter, int value);

}  // namespace seemalloc
