// An allocator preloaded after seemalloc. It cannot tell which blocks it owns: a block of another
// allocator ends the program. No object is bound to its malloc, but the program may call it by
// another name.
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

struct Header {
  size_t bytes;
  char word[8];
};
static char* arena;
static size_t used;
size_t other_frees;

void* other_malloc(size_t size) {
  enum { kBytes = 64 << 20 };
  if (arena == NULL)
    arena = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct Header* header = (struct Header*)(arena + used);
  used += sizeof(*header) + ((size + 15) & ~(size_t)15);
  if (arena == MAP_FAILED || used > kBytes) return NULL;
  header->bytes = size;
  memcpy(header->word, "is other", 8);
  return header + 1;
}
static struct Header* header_of(void* block) {
  struct Header* header = (struct Header*)block - 1;
  if (memcmp(header->word, "is other", 8) != 0) __builtin_trap();
  return header;
}

void* malloc(size_t size) { return other_malloc(size); }
size_t malloc_usable_size(void* block) { return header_of(block)->bytes; }
void free(void* block) {
  if (block == NULL) return;
  memcpy(header_of(block)->word, "was ....", 8);
  other_frees++;
}
