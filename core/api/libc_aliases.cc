// glibc's internal names for the malloc family: code that calls them must meet the same heap.
#include "core/api/fast_path.h"

extern "C" {
void* malloc(size_t bytes) noexcept;
void free(void* p) noexcept;
void* calloc(size_t count, size_t each) noexcept;
void* realloc(void* p, size_t bytes) noexcept;
void* memalign(size_t alignment, size_t bytes) noexcept;
void* valloc(size_t bytes) noexcept;
void* pvalloc(size_t bytes) noexcept;
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept;
}

SEEMALLOC_EXPORT void* __libc_malloc(size_t bytes) noexcept { return seemalloc::allocate(bytes); }
SEEMALLOC_EXPORT void __libc_free(void* p) noexcept { seemalloc::deallocate(p); }
SEEMALLOC_EXPORT void __libc_cfree(void* p) noexcept { seemalloc::deallocate(p); }
SEEMALLOC_EXPORT void* __libc_calloc(size_t count, size_t each) noexcept { return calloc(count, each); }
SEEMALLOC_EXPORT void* __libc_realloc(void* p, size_t bytes) noexcept { return realloc(p, bytes); }
SEEMALLOC_EXPORT void* __libc_memalign(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
SEEMALLOC_EXPORT void* __libc_valloc(size_t bytes) noexcept { return valloc(bytes); }
SEEMALLOC_EXPORT void* __libc_pvalloc(size_t bytes) noexcept { return pvalloc(bytes); }
SEEMALLOC_EXPORT int __posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  return posix_memalign(out, alignment, bytes);
}
