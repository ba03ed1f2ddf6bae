// The malloc family of the test build, by its prefixed names.
#pragma once

#include <malloc.h>
#include <stddef.h>

extern "C" {
void* sm_malloc(size_t bytes) noexcept;
void sm_free(void* p) noexcept;
void* sm_calloc(size_t count, size_t each) noexcept;
void* sm_realloc(void* p, size_t bytes) noexcept;
void* sm_reallocarray(void* p, size_t count, size_t each) noexcept;
void* sm_memalign(size_t alignment, size_t bytes) noexcept;
void* sm_aligned_alloc(size_t alignment, size_t bytes) noexcept;
void* sm_valloc(size_t bytes) noexcept;
void* sm_pvalloc(size_t bytes) noexcept;
int sm_posix_memalign(void** out, size_t alignment, size_t bytes) noexcept;
size_t sm_malloc_usable_size(void* p) noexcept;
int sm_malloc_trim(size_t keep) noexcept;
}
