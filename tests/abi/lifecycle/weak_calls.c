// Calls the functions of seemalloc.h by weak references, as documented: a program linked with the
// archive finds them all, although a weak reference extracts nothing from an archive, and so does a
// program that links the whole archive.
#include <seemalloc/seemalloc.h>

#include "expect.h"

#define CALLS(each)                                                                           \
  each(seemalloc_version) each(seemalloc_profile_start) each(seemalloc_profile_stop)          \
      each(seemalloc_profile_dump) each(seemalloc_profile_dump_kind)                          \
          each(seemalloc_profile_baseline) each(seemalloc_cpu_start) each(seemalloc_cpu_stop) \
              each(seemalloc_cpu_dump) each(seemalloc_cpu_running) each(seemalloc_statistics) \
                  each(seemalloc_option_set) each(seemalloc_option_get) each(seemalloc_purge) \
                      each(seemalloc_pool_create) each(seemalloc_pool_alloc)                  \
                          each(seemalloc_pool_free) each(seemalloc_pool_reset)                \
                              each(seemalloc_pool_destroy) each(seemalloc_for_each_block)
#define DECLARE_WEAK(name) extern __typeof__(name) name __attribute__((weak));
#define EXPECT_IT(name) EXPECT(name != NULL);
CALLS(DECLARE_WEAK)

int main(void) {
  void* block = malloc(100);
  EXPECT(block != NULL);
  free(block);
  CALLS(EXPECT_IT)
  EXPECT(seemalloc_version()[0] != 0);
  seemalloc_pool_t* pool = seemalloc_pool_create("weak");
  EXPECT(pool != NULL);
  seemalloc_pool_alloc(pool, &pool, 100);
  seemalloc_pool_free(pool, &pool);
  seemalloc_pool_destroy(pool);
  return ok();
}
