// A process with many gaps between huge blocks, or with as many mappings of its own as the kernel
// allows, can still allocate.
//   many_mappings          gaps
//   many_mappings limit    gaps that have to be unmapped, since the address space is limited
//   many_mappings own      the program's own mappings
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "expect.h"

static long mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  if (file == NULL) cannot("no /proc");
  long lines = 0;
  for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
  fclose(file);
  return lines;
}

static long limit(void) {
  FILE* file = fopen("/proc/sys/vm/max_map_count", "r");
  long most = 0;
  if (file == NULL || fscanf(file, "%ld", &most) != 1)
    cannot("the kernel does not tell how many mappings it allows");
  fclose(file);
  return most;
}

static void* nothing(void* p) {
  char* block = malloc(1000);
  EXPECT(block != NULL);
  free(block);
  return p;
}

static void use_small_blocks(int count) {
  void** first = NULL;
  for (int i = 0; i < count; i++) {
    void** block = malloc(16 + (size_t)(i % 700) * 8);
    EXPECT(block != NULL);
    *block = first;
    first = block;
  }
  while (first != NULL) {
    void** next = *first;
    free(first);
    first = next;
  }
}

// Frees all blocks but one in `every`.
static void make_holes(int count, int every) {
  char** blocks = malloc((size_t)count * sizeof(*blocks));
  EXPECT(blocks != NULL);
  for (int i = 0; i < count; i++) {
    blocks[i] = malloc(1200000 + (size_t)(i % 7) * 8192);
    EXPECT(blocks[i] != NULL);
    *blocks[i] = 1;
  }
  for (int i = 0; i < count; i++) {
    if (i % every != 0) free(blocks[i]);
  }
  EXPECT(mappings() < limit() / 2);
  use_small_blocks(200000);
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
  }
  for (int i = 0; i < count; i++) {
    if (i % every != 0) EXPECT((blocks[i] = malloc(1200000)) != NULL);
  }
  for (int i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  EXPECT(mappings() < 2000);
}

// Memory freed in blocks of one size is requested in blocks twice as large, which fit into no gap.
static void use_holes_under_a_limit(int count) {
  size_t each = 1200000, all = (size_t)count * (each + 8192);
  struct rlimit limit = {all + ((size_t)1 << 30), all + ((size_t)1 << 30)};
  if (setrlimit(RLIMIT_AS, &limit) != 0) cannot("no limit on the address space");
  char** blocks = malloc((size_t)count * sizeof(*blocks));
  EXPECT(blocks != NULL);
  for (int i = 0; i < count; i++) EXPECT((blocks[i] = malloc(each)) != NULL);
  for (int i = 0; i < count; i += 2) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
  int larger = (int)((size_t)count / 2 * each / 10 * 9 / (2 * each + 200000));
  for (int i = 0; i < larger; i++) EXPECT((blocks[2 * i] = malloc(2 * each + 200000)) != NULL);
  use_small_blocks(200000);
  for (int i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
}

// The program itself has all the mappings: from here on the heap can only grow existing ones.
static void use_up_mappings(void) {
  long most = limit();
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* area = mmap(NULL, (size_t)most * page, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT(area != MAP_FAILED);
  for (long i = 1; i < most; i += 2) {
    if (mprotect(area + i * (long)page, page, PROT_READ) != 0) break;
  }
  while (mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
  }
  use_small_blocks(1000000);
  char* large[1000];
  for (int i = 0; i < 1000; i++) EXPECT((large[i] = malloc(40000 + (size_t)i * 700)) != NULL);
  for (int i = 0; i < 1000; i++) free(large[i]);
}

int main(int argc, char** argv) {
  expect_subject();
  if (limit() < 60000 || limit() > 300000)
    cannot("the limit of mappings is far from the kernel's default");
  if (argc > 1 && strcmp(argv[1], "own") == 0) {
    use_up_mappings();
  } else if (argc > 1 && strcmp(argv[1], "limit") == 0) {
    use_holes_under_a_limit(110000);
  } else {
    make_holes(110000, 2);
    make_holes(60000, 3);
  }
  return ok();
}
