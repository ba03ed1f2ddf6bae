// Under RLIMIT_AS: allocation fails with ENOMEM and the program continues; freed memory can be
// reused, also for other sizes.
//   address_limit MAX_MIB MIN_SIZE            runs itself under limits up to MAX_MIB, set before
//   the allocator starts and after
//   address_limit early|late MIB MIN_SIZE     one such run, with blocks of MIN_SIZE and more
#include <sys/resource.h>
#include <sys/wait.h>

#include "expect.h"

struct Link {
  struct Link* next;
  size_t size;
};

// Allocates blocks of one size until a request is refused. Returns the number of blocks; *list
// links them.
static size_t fill(size_t size, struct Link** list) {
  size_t count = 0;
  errno = 0;
  for (;;) {
    struct Link* link = malloc(size);
    if (link == NULL) break;
    // Writes all of a small block and both ends of a large one: touching everything would take most
    // of the time.
    memset(link, 0x6d, size <= 4096 ? size : sizeof(*link));
    ((unsigned char*)link)[size - 1] = 0x6d;
    link->next = *list;
    link->size = size;
    *list = link;
    count++;
  }
  EXPECT(errno == ENOMEM);
  return count;
}

static void free_all(struct Link** list) {
  while (*list != NULL) {
    struct Link* link = *list;
    *list = link->next;
    EXPECT(((unsigned char*)link)[link->size - 1] == 0x6d);
    free(link);
  }
}

static void set_limit(size_t bytes) {
  struct rlimit limit = {bytes, bytes};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
}

static int under_limit(size_t limit, size_t min_size) {
  static const size_t sizes[] = {1 << 20, 65536,   4000,   200, 32,     4000,
                                 65536,   1 << 20, 200000, 32,  3 << 20};
  struct Link* list = NULL;
  size_t first[16] = {0};  // bytes by size index in the first pass
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    if (sizes[i] < min_size) continue;
    size_t bytes = fill(sizes[i], &list) * sizes[i];
    if (bytes == 0)
      dprintf(2, "limit %zu MiB: not one block of %zu bytes, step %u\n", limit >> 20, sizes[i], i);
    // With a full heap every other request fails, too, and realloc leaves the old block unchanged.
    void* block = list;
    EXPECT(block != NULL);
    EXPECT(realloc(block, limit) == NULL && errno == ENOMEM);
    EXPECT(calloc(1, limit) == NULL && errno == ENOMEM);
    EXPECT(aligned_alloc(4096, limit) == NULL && errno == ENOMEM);
    free_all(&list);
    first[i] = bytes;
    // At least a third of the limit must be usable; small blocks have overhead.
    if (bytes < limit / 3)
      dprintf(2, "limit %zu MiB: only %zu KiB of %zu-byte blocks\n", limit >> 20, bytes >> 10,
              sizes[i]);
    EXPECT(bytes >= limit / 3);
    for (unsigned j = 0; j < i; j++) {
      if (sizes[j] != sizes[i]) continue;
      if (bytes < first[j] / 10 * 8) {
        dprintf(2, "limit %zu MiB, %zu-byte blocks: %zu KiB at first, %zu KiB later\n", limit >> 20,
                sizes[i], first[j] >> 10, bytes >> 10);
      }
      EXPECT(bytes >= first[j] / 10 * 8);
    }
  }
  unsigned char* zero = calloc(1, limit / 4);
  EXPECT(zero != NULL);
  for (size_t i = 0; i < limit / 4; i++) EXPECT(zero[i] == 0);
  free(zero);
  return 0;
}

int main(int argc, char** argv) {
  expect_subject();
  if (argc == 4) {
    size_t limit = (size_t)atoi(argv[2]) << 20;
    if (strcmp(argv[1], "late") == 0) {
      free(malloc(100));
      set_limit(limit);
    }
    return under_limit(limit, (size_t)atol(argv[3]));
  }
  EXPECT(argc == 3);
  static const char* limits[] = {"64", "128", "256", "512"};
  for (int i = 0; i < 8; i++) {
    const char* limit = limits[i / 2];
    if (atoi(limit) > atoi(argv[1])) continue;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
      if (i % 2 == 0) set_limit((size_t)atoi(limit) << 20);
      execl(argv[0], argv[0], i % 2 == 0 ? "early" : "late", limit, argv[2], NULL);
      _exit(5);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      dprintf(2, "%s %s: status %x\n", i % 2 == 0 ? "early" : "late", limit, (unsigned)status);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return ok();
}
