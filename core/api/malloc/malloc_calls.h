// The parts of the C library's calls around the fast paths, for all their names (malloc.cc,
// core/compat). No call here leaves this library, even if another library defines malloc.
//
// Threads: any.
#pragma once

#include <errno.h>
#include <string.h>

#include <bit>

#include "core/api/malloc/fast_path.h"
#include "core/base/own_memory.h"
#include "core/os/kernel/memory.h"

namespace seemalloc {

// Zeroes all bytes that malloc_usable_size counts, as glibc does: programs use them.
SEEMALLOC_NOINLINE inline void* new_zeroed_slow(size_t bytes, size_t size_class) {
  void* p = allocate_slow(bytes, size_class);
  return p != nullptr ? libc_memset(p, 0, heap::kClasses[size_class].bytes) : nullptr;
}

SEEMALLOC_ALWAYS_INLINE void* new_zeroed(size_t count, size_t each) {
  size_t bytes;
  if (SEEMALLOC_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
    errno = ENOMEM;
    return nullptr;
  }
  if (SEEMALLOC_UNLIKELY(bytes > heap::kMaxSmallBytes)) return allocate_zeroed_large(bytes);
  size_t size_class = heap::class_of(bytes);
  Block* block = pop_free_list(size_class);
  if (SEEMALLOC_UNLIKELY(block == nullptr)) return new_zeroed_slow(bytes, size_class);
  return libc_memset(block, 0, heap::kClasses[size_class].bytes);
}

SEEMALLOC_ALWAYS_INLINE void* resize(void* p, size_t bytes) {
  if (p == nullptr) return allocate(bytes);
  if (bytes == 0) {
    deallocate(p);
    return nullptr;
  }
  return reallocate(p, bytes);
}

inline void* resize_array(void* p, size_t count, size_t each) {
  size_t bytes;
  if (SEEMALLOC_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
    errno = ENOMEM;
    return nullptr;
  }
  return resize(p, bytes);
}

// Like glibc: rounds an alignment that is not a power of two up to one, and fails if that is
// impossible.
inline void* new_aligned_to(size_t alignment, size_t bytes) {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return nullptr;
  }
  return allocate_aligned(bytes, alignment <= 16 ? 16 : std::bit_ceil(alignment));
}

// Like posix_memalign. Also sets errno to ENOMEM, like glibc.
SEEMALLOC_NOINLINE inline int new_aligned_slow(void** out, size_t alignment, size_t bytes) {
  void* p = allocate_aligned(bytes, alignment);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}

SEEMALLOC_ALWAYS_INLINE int new_aligned_to(void** out, size_t alignment, size_t bytes) {
  if (SEEMALLOC_UNLIKELY(!is_power_of_two(alignment) || alignment % sizeof(void*) != 0))
    return EINVAL;
  Block* block = is_small(bytes, alignment)
                     ? pop_free_list(heap::aligned_class_of(bytes, alignment))
                     : nullptr;
  if (SEEMALLOC_UNLIKELY(block == nullptr)) return new_aligned_slow(out, alignment, bytes);
  *out = block;
  return 0;
}

// Like pvalloc: whole pages.
inline void* new_pages(size_t bytes) {
  size_t page = os::page_bytes();
  if (bytes > SIZE_MAX - page) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocate_aligned(round_up(bytes, page), page);
}

inline void* new_page_aligned(size_t bytes) { return allocate_aligned(bytes, os::page_bytes()); }

inline size_t usable(const void* p) {
  return p == nullptr ? 0 : usable_bytes(const_cast<void*>(p));
}

}  // namespace seemalloc
