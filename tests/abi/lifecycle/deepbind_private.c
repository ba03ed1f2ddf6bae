// A plugin of deepbind.c with its own allocator, which marks its blocks. No other object uses that
// allocator.
#include <string.h>

#include "deepbind.h"

static char arena[1 << 20] __attribute__((aligned(16)));
static size_t used, count;

void* malloc(size_t size) {
  char* block = arena + used;
  used += (size + 31) & ~(size_t)15;
  if (used > sizeof(arena)) return NULL;
  memcpy(block, "private block ..", 16);
  count++;
  return block + 16;
}
void free(void* block) {
  if (block != NULL && memcmp((char*)block - 16, "private block ..", 16) != 0) __builtin_trap();
}

static void* plugin_malloc(size_t size) { return malloc(size); }
static void plugin_free(void* block) { free(block); }

size_t private_count(void) { return count; }
const struct Family* plugin_family(void) {
  static const struct Family family = {.malloc = plugin_malloc, .free = plugin_free};
  return &family;
}
