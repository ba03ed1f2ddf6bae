// malloc, free and their family, as the C library exports them. The fast paths are in fast_path.h,
// the code around them in malloc_calls.h: no function below calls another by its exported name,
// which may resolve to the program's or another library's.
#include <malloc.h>

#include "core/api/malloc/fast_path.h"
#include "core/api/malloc/malloc_calls.h"

using namespace seemalloc;

// A program may refer to the calls of seemalloc.h weakly, and a weak reference extracts no member
// from an archive. So this member refers to them: a program that links malloc gets them as well.
// The references are in the symbol table only and cost no code and no data.
__asm__(
    ".globl seemalloc_version\n"
    ".globl seemalloc_pool_create\n");

SEEMALLOC_EXPORT void* malloc(size_t bytes) noexcept { return allocate(bytes); }

SEEMALLOC_EXPORT void free(void* p) noexcept { deallocate(p); }

SEEMALLOC_EXPORT void* calloc(size_t count, size_t each) noexcept {
  return new_zeroed(count, each);
}

SEEMALLOC_EXPORT void* realloc(void* p, size_t bytes) noexcept { return resize(p, bytes); }

SEEMALLOC_EXPORT void* reallocarray(void* p, size_t count, size_t each) noexcept {
  return resize_array(p, count, each);
}

SEEMALLOC_EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(alignment, bytes);
}

SEEMALLOC_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(alignment, bytes);
}

SEEMALLOC_EXPORT int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(out, alignment, bytes);
}

SEEMALLOC_EXPORT void* valloc(size_t bytes) noexcept { return new_page_aligned(bytes); }

SEEMALLOC_EXPORT void* pvalloc(size_t bytes) noexcept { return new_pages(bytes); }

SEEMALLOC_EXPORT size_t malloc_usable_size(void* p) noexcept { return usable(p); }

SEEMALLOC_EXPORT void cfree(void* p) noexcept { deallocate(p); }

SEEMALLOC_EXPORT void free_sized(void* p, size_t) noexcept { deallocate(p); }

SEEMALLOC_EXPORT void free_aligned_sized(void* p, size_t, size_t) noexcept { deallocate(p); }

// glibc's internal names: code that calls them must use the same heap. They are here so that a
// static link has them, too.
SEEMALLOC_EXPORT void* __libc_malloc(size_t bytes) noexcept { return allocate(bytes); }
SEEMALLOC_EXPORT void __libc_free(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void __libc_cfree(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void* __libc_calloc(size_t count, size_t each) noexcept {
  return new_zeroed(count, each);
}
SEEMALLOC_EXPORT void* __libc_realloc(void* p, size_t bytes) noexcept { return resize(p, bytes); }
SEEMALLOC_EXPORT void* __libc_memalign(size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(alignment, bytes);
}
SEEMALLOC_EXPORT void* __libc_valloc(size_t bytes) noexcept { return new_page_aligned(bytes); }
SEEMALLOC_EXPORT void* __libc_pvalloc(size_t bytes) noexcept { return new_pages(bytes); }
SEEMALLOC_EXPORT int __posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(out, alignment, bytes);
}
