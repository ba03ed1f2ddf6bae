// Calls malloc from code generated at run time, and writes perf's list of that code, as a JIT
// compiler does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBlocks = 100, kBytes = 4096, kCodeBytes = 4096 };
static void* volatile blocks[kBlocks];
static int count;

__attribute__((noinline)) static void allocate(void) {
  void* block = malloc(kBytes);
  memset(block, 1, kBytes);
  blocks[count++] = block;
}

int main(void) {
#if defined(__x86_64__)
  // push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xE5, 0xFF, 0xD7, 0x5D, 0xC3};
#elif defined(__aarch64__)
  // stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret
  static const unsigned code[] = {0xA9BF7BFD, 0x910003FD, 0xD63F0000, 0xA8C17BFD, 0xD65F03C0};
#endif
  void* place = mmap(NULL, kCodeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(place, code, sizeof(code));
  mprotect(place, kCodeBytes, PROT_READ | PROT_EXEC);
  __builtin___clear_cache((char*)place, (char*)place + kCodeBytes);

  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  FILE* list = fopen(path, "w");
  if (list == NULL) return 1;
  fprintf(list, "%lx %x script::make_blocks script.js:7\n", (unsigned long)place,
          (unsigned)sizeof(code));
  fclose(list);

  for (int i = 0; i < kBlocks; i++) ((void (*)(void (*)(void)))place)(allocate);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  remove(path);
  return 0;
}
