// Included before everything else in the test build of the core: the malloc family gets the prefix
// sm_, so that a test program keeps the C library's allocator and calls ours by the prefixed names.
// Function-like macros, so that `struct mallinfo` keeps its name.
#pragma once

#include <malloc.h>
#include <stdlib.h>

#include <cstdlib>
#include <new>

#define malloc(...) sm_malloc(__VA_ARGS__)
#define free(...) sm_free(__VA_ARGS__)
#define calloc(...) sm_calloc(__VA_ARGS__)
#define realloc(...) sm_realloc(__VA_ARGS__)
#define reallocarray(...) sm_reallocarray(__VA_ARGS__)
#define memalign(...) sm_memalign(__VA_ARGS__)
#define posix_memalign(...) sm_posix_memalign(__VA_ARGS__)
#define aligned_alloc(...) sm_aligned_alloc(__VA_ARGS__)
#define valloc(...) sm_valloc(__VA_ARGS__)
#define pvalloc(...) sm_pvalloc(__VA_ARGS__)
#define malloc_usable_size(...) sm_malloc_usable_size(__VA_ARGS__)
#define malloc_trim(...) sm_malloc_trim(__VA_ARGS__)
#define malloc_stats(...) sm_malloc_stats(__VA_ARGS__)
#define malloc_info(...) sm_malloc_info(__VA_ARGS__)
#define mallinfo(...) sm_mallinfo(__VA_ARGS__)
#define mallinfo2(...) sm_mallinfo2(__VA_ARGS__)
#define mallopt(...) sm_mallopt(__VA_ARGS__)
#define cfree(...) sm_cfree(__VA_ARGS__)
#define free_sized(...) sm_free_sized(__VA_ARGS__)
#define free_aligned_sized(...) sm_free_aligned_sized(__VA_ARGS__)
#define __libc_malloc(...) sm___libc_malloc(__VA_ARGS__)
#define __libc_free(...) sm___libc_free(__VA_ARGS__)
#define __libc_cfree(...) sm___libc_cfree(__VA_ARGS__)
#define __libc_calloc(...) sm___libc_calloc(__VA_ARGS__)
#define __libc_realloc(...) sm___libc_realloc(__VA_ARGS__)
#define __libc_memalign(...) sm___libc_memalign(__VA_ARGS__)
#define __libc_valloc(...) sm___libc_valloc(__VA_ARGS__)
#define __libc_pvalloc(...) sm___libc_pvalloc(__VA_ARGS__)
#define __posix_memalign(...) sm___posix_memalign(__VA_ARGS__)
