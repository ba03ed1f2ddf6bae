// gperftools' second names of the malloc family and of C++'s operators.
//
// They do not call the first names, because the program may have replaced those with functions that
// call these. Threads: any.
#include <malloc.h>

#include <new>

#include "core/api/malloc/alternative_names.h"
#include "core/api/malloc/malloc_calls.h"
#include "core/api/service/report.h"
#include "core/base/compiler.h"
#include "core/compat/mallctl.h"

using namespace seemalloc;
using namespace seemalloc::compat;

SEEMALLOC_EXPORT const char* tc_version(int* major, int* minor, const char** patch) noexcept {
  if (major != nullptr) *major = 2;
  if (minor != nullptr) *minor = 10;
  if (patch != nullptr) *patch = "";
  return "gperftools 2.10 (seemalloc " SEEMALLOC_VERSION ")";
}

SEEMALLOC_EXPORT void* tc_malloc(size_t bytes) noexcept { return allocate(bytes); }
SEEMALLOC_EXPORT void* tc_malloc_skip_new_handler(size_t bytes) noexcept { return allocate(bytes); }
SEEMALLOC_EXPORT void tc_free(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_free_sized(void* p, size_t) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void* tc_realloc(void* p, size_t bytes) noexcept { return resize(p, bytes); }
SEEMALLOC_EXPORT void* tc_calloc(size_t count, size_t each) noexcept {
  return new_zeroed(count, each);
}
SEEMALLOC_EXPORT void tc_cfree(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void* tc_memalign(size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(alignment, bytes);
}
SEEMALLOC_EXPORT int tc_posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  return new_aligned_to(out, alignment, bytes);
}
SEEMALLOC_EXPORT void* tc_valloc(size_t bytes) noexcept { return new_page_aligned(bytes); }
SEEMALLOC_EXPORT void* tc_pvalloc(size_t bytes) noexcept { return new_pages(bytes); }
SEEMALLOC_EXPORT size_t tc_malloc_size(void* p) noexcept { return usable(p); }
SEEMALLOC_EXPORT size_t tc_nallocx(size_t bytes, int flags) noexcept {
  return allocation_size(bytes, size_t{1} << (flags & 0x3f));
}

SEEMALLOC_EXPORT void tc_malloc_stats(void) noexcept { print_statistics(); }
SEEMALLOC_EXPORT int tc_mallopt(int parameter, int value) noexcept {
  return check_mallopt(parameter, value);
}
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SEEMALLOC_EXPORT struct mallinfo tc_mallinfo(void) noexcept { return heap_info_in_int(); }
SEEMALLOC_EXPORT struct mallinfo2 tc_mallinfo2(void) noexcept { return mallinfo2_figures(); }

// malloc does not call the new-handler here: the mode is always 0.
SEEMALLOC_EXPORT int tc_set_new_mode(int) noexcept { return 0; }
SEEMALLOC_EXPORT int tc_query_new_mode(void) noexcept { return 0; }

using std::align_val_t;
using std::nothrow_t;

SEEMALLOC_EXPORT void* tc_new(size_t bytes) { return call_new(bytes); }
SEEMALLOC_EXPORT void* tc_newarray(size_t bytes) { return call_new(bytes); }
SEEMALLOC_EXPORT void* tc_new_nothrow(size_t bytes, const nothrow_t& n) noexcept {
  return call_new(bytes, n);
}
SEEMALLOC_EXPORT void* tc_newarray_nothrow(size_t bytes, const nothrow_t& n) noexcept {
  return call_new(bytes, n);
}
SEEMALLOC_EXPORT void* tc_new_aligned(size_t bytes, align_val_t a) { return call_new(bytes, a); }
SEEMALLOC_EXPORT void* tc_newarray_aligned(size_t bytes, align_val_t a) {
  return call_new(bytes, a);
}
SEEMALLOC_EXPORT void* tc_new_aligned_nothrow(size_t bytes, align_val_t a,
                                              const nothrow_t& n) noexcept {
  return call_new(bytes, a, n);
}
SEEMALLOC_EXPORT void* tc_newarray_aligned_nothrow(size_t bytes, align_val_t a,
                                                   const nothrow_t& n) noexcept {
  return call_new(bytes, a, n);
}

SEEMALLOC_EXPORT void tc_delete(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_deletearray(void* p) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_delete_sized(void* p, size_t) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_deletearray_sized(void* p, size_t) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_delete_nothrow(void* p, const nothrow_t&) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_deletearray_nothrow(void* p, const nothrow_t&) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_delete_aligned(void* p, align_val_t) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_deletearray_aligned(void* p, align_val_t) noexcept { deallocate(p); }
SEEMALLOC_EXPORT void tc_delete_sized_aligned(void* p, size_t, align_val_t) noexcept {
  deallocate(p);
}
SEEMALLOC_EXPORT void tc_deletearray_sized_aligned(void* p, size_t, align_val_t) noexcept {
  deallocate(p);
}
SEEMALLOC_EXPORT void tc_delete_aligned_nothrow(void* p, align_val_t, const nothrow_t&) noexcept {
  deallocate(p);
}
SEEMALLOC_EXPORT void tc_deletearray_aligned_nothrow(void* p, align_val_t,
                                                     const nothrow_t&) noexcept {
  deallocate(p);
}
