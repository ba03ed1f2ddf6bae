// Memory pools in the library without a profiler: they record nothing.
#include <seemalloc/seemalloc.h>

#include "core/base/compiler.h"

SEEMALLOC_EXPORT seemalloc_pool_t* seemalloc_pool_create(const char*) { return nullptr; }
SEEMALLOC_EXPORT void seemalloc_pool_alloc(seemalloc_pool_t*, const void*, size_t) {}
SEEMALLOC_EXPORT void seemalloc_pool_free(seemalloc_pool_t*, const void*) {}
SEEMALLOC_EXPORT void seemalloc_pool_reset(seemalloc_pool_t*) {}
SEEMALLOC_EXPORT void seemalloc_pool_destroy(seemalloc_pool_t*) {}
