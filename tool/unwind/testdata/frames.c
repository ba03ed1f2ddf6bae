// Prints the registers, the stack and the result of backtrace() in functions of many kinds.
#define _GNU_SOURCE
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { kDepth = 64, kStackBytes = 16 << 10 };

__attribute__((noinline)) static void dump(const char* name, const ucontext_t* c, void** pcs, int depth) {
  // In the order of the DWARF numbers.
  static const int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                               REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  printf("place %s\nregisters", name);
  for (size_t i = 0; i < sizeof(kOrder) / sizeof(*kOrder); i++) printf(" %llx", (unsigned long long)c->uc_mcontext.gregs[kOrder[i]]);
  printf("\nbacktrace");
  for (int i = 0; i < depth; i++) printf(" %lx", (unsigned long)(uintptr_t)pcs[i]);
  // Up to the end of its mapping.
  static unsigned char stack[kStackBytes];
  size_t bytes = 0;
  for (; bytes < sizeof(stack); bytes += 8) {
    struct iovec to = {stack + bytes, 8}, from = {(char*)c->uc_mcontext.gregs[REG_RSP] + bytes, 8};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 8) break;
  }
  printf("\nstack ");
  for (size_t i = 0; i < bytes; i++) printf("%02x", stack[i]);
  printf("\n");
}

#define HERE(name)                       \
  do {                                   \
    ucontext_t c;                        \
    getcontext(&c);                      \
    void* pcs[kDepth];                   \
    dump(name, &c, pcs, backtrace(pcs, kDepth)); \
  } while (0)

__attribute__((noinline)) static int deeper(int n, int size) {
  volatile char* some = alloca((size_t)size);
  some[0] = (char)n;
  if (n == 0) {
    HERE("recursion with alloca");
    return some[0];
  }
  int below = deeper(n - 1, size + 40);
  return below + some[0];
}

static int compare(const void* a, const void* b) {
  static int once;
  if (once++ == 0) HERE("callback of the C library");
  return *(const int*)a - *(const int*)b;
}

__attribute__((noinline)) static int realigned(int n) {
  _Alignas(64) volatile char line[64];
  line[0] = (char)n;
  HERE("realigned stack");
  return line[0] + n;
}

static void on_signal(int number) {
  (void)number;
  HERE("signal handler");
}

static void* in_thread(void* unused) {
  HERE("thread");
  return unused;
}

// A function without unwind tables, with a frame pointer.
void without_tables(void (*f)(void));
__asm__(".globl without_tables\nwithout_tables:\n  push %rbp\n  mov %rsp, %rbp\n  sub $32, %rsp\n  call *%rdi\n  leave\n  ret\n");
static void called_without_tables(void) { HERE("above code without tables"); }

int main(void) {
  deeper(5, 100);
  int numbers[] = {3, 2, 1};
  qsort(numbers, 3, sizeof(int), compare);
  realigned(3);
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  without_tables(called_without_tables);
  printf("maps\n");
  fflush(stdout);
  FILE* maps = fopen("/proc/self/maps", "r");
  for (int c; (c = fgetc(maps)) != EOF;) putchar(c);
  return 0;
}
