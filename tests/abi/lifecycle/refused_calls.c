// Under a seccomp filter that answers EPERM to all but the most basic system calls: no madvise,
// mremap, sockets, new threads, files. The allocator must cope; in particular calloc must not
// assume that memory was returned to the OS when it was not.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "expect.h"

#define ALLOW(call)                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void refuse_calls(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(brk),
      ALLOW(mmap),
      ALLOW(munmap),
      ALLOW(mprotect),
      ALLOW(futex),
      ALLOW(read),
      ALLOW(write),
      ALLOW(exit),
      ALLOW(exit_group),
      ALLOW(rt_sigreturn),
      ALLOW(clock_gettime),
      ALLOW(newfstatat),
      ALLOW(fstat),
      ALLOW(getpid),
      ALLOW(rt_sigprocmask),
      ALLOW(lseek),  // for dprintf, if a check fails
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
  struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    cannot("seccomp filters are not allowed");
  }
}

static void expect_zero(const unsigned char* bytes, size_t size) {
  EXPECT(bytes != NULL);
  for (size_t i = 0; i < size; i++) EXPECT(bytes[i] == 0);
}

int main(int argc, char** argv) {
  (void)argv;
  expect_subject();
  // Both orders: the filter before the allocator has been used much, and after it is warm.
  if (argc == 1) free(malloc(100));
  if (argc > 1) {
    for (size_t size = 1; size < (4 << 20); size *= 2) free(malloc(size));
  }
  refuse_calls();
  errno = 77;
  for (int round = 0; round < 3; round++) {
    for (size_t size = 16; size <= (4 << 20); size *= 4) {
      void* blocks[8];
      for (int i = 0; i < 8; i++) {
        blocks[i] = calloc(1, size);
        expect_zero(blocks[i], size);
        memset(blocks[i], 0xff, size);
      }
      for (int i = 0; i < 8; i++) free(blocks[i]);
    }
    malloc_trim(0);
  }
  char* growing = NULL;
  for (size_t size = 1000; size < (32 << 20); size = size * 3 / 2) {
    growing = realloc(growing, size);
    EXPECT(growing != NULL);
    memset(growing, 1, size);
  }
  free(growing);
  // Glibc's realloc passes mremap's EPERM on.
  if (getenv("EXPECT_SEEMALLOC") != NULL) EXPECT(errno == 77);
  return ok();
}
