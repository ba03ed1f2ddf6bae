// Frames of every kind that C has, in random order: from small ones to realigned ones of variable
// size, callbacks, signals, threads, fibres, code without unwind tables, code generated at run
// time, unbounded recursion.
#ifdef WITHOUT_INDEX
#include <link.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

#include "expected_stack.h"

static __thread unsigned long state;
static unsigned random_below(unsigned limit) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return (unsigned)(state >> 33) % limit;
}

enum { kWays = 9, kNowhere = 100 };
static NOINLINE void any(int depth);

static NOINLINE void through_nothing(int depth) {
  PUSH_FRAME();
  any(depth);
  KEEP_FRAME;
  POP_FRAME();
}

// Needs all callee-saved registers, the frame pointer's included.
static NOINLINE long through_registers(int depth, long a, long b, long c, long d, long e, long f) {
  PUSH_FRAME();
  long g = a * b, h = c * d, i = e * f;
  any(depth);
  POP_FRAME();
  return a + b * c - d * e + f * g - h * i;
}

static NOINLINE void through_array(int depth) {
  PUSH_FRAME();
  volatile char room[300];
  room[depth % 300] = 1;
  any(depth + room[depth % 300] - 1);
  POP_FRAME();
}

static NOINLINE void through_alloca(int depth) {
  PUSH_FRAME();
  volatile char* room = (volatile char*)__builtin_alloca(random_below(9000) + 1);
  room[0] = 1;
  any(depth);
  KEEP_FRAME;
  POP_FRAME();
}

// The CFA of this frame is an expression.
static NOINLINE void through_realigned_stack(int depth) {
  PUSH_FRAME();
  _Alignas(128) volatile char aligned[128];
  aligned[0] = (char)depth;
  volatile char* room = (volatile char*)__builtin_alloca(random_below(100) + 1);
  room[0] = aligned[0];
  any(depth);
  KEEP_FRAME;
  POP_FRAME();
}

// ---- through library code ----

static __thread int callback_depth;
static NOINLINE int compare(const void* a, const void* b) {
  PUSH_FRAME();
  int depth = callback_depth;
  callback_depth = 0;
  if (depth > 0) any(depth);
  POP_FRAME();
  return *(const int*)a - *(const int*)b;
}

static NOINLINE void through_qsort(int depth) {
  PUSH_FRAME();
  int numbers[] = {4, 2, 7, 1, 9, 3};
  callback_depth = depth;
  SKIP_FOREIGN_FRAMES();
  qsort(numbers, 6, sizeof(int), compare);
  POP_FRAME();
  KEEP_FRAME;
  POP_FRAME();
}

static __thread int signal_depth, on_signal_stack;
static void on_signal(int number) {
  PUSH_FRAME();
  on_signal_stack += number == SIGUSR2;
  any(signal_depth);
  on_signal_stack -= number == SIGUSR2;
  POP_FRAME();
}

static NOINLINE void through_signal(int depth) {
  if (on_signal_stack) depth = 0;  // a walk switches stacks a few times only
  PUSH_FRAME();
  signal_depth = depth;
  SKIP_FOREIGN_FRAMES();
  raise(depth % 2 == 0 || on_signal_stack ? SIGUSR1 : SIGUSR2);
  POP_FRAME();
  KEEP_FRAME;
  POP_FRAME();
}

static void handle_signals(void) {
  static _Alignas(16) char room[256 * 1024];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
  sigaction(SIGUSR1, &action, NULL);
  action.sa_flags |= SA_ONSTACK;
  sigaction(SIGUSR2, &action, NULL);
}

// ---- code without unwind tables that keeps a frame pointer ----

#if defined(__x86_64__)
#define HAS_BARE_CODE 1
// bare_call(f) calls f. Position-independent, so that it runs anywhere.
void bare_call(void (*function)(void));
extern const char bare_end[];
__asm__(
    ".text\n.type bare_call, @function\nbare_call:\npushq %rbp\nmovq %rsp, %rbp\ncall *%rdi\npopq %rbp\nret\n"
    "bare_end:\n.size bare_call, .-bare_call\n");

static __thread int bare_depth;
static NOINLINE void called_by_bare(void) {
  PUSH_FRAME();
  any(bare_depth);
  POP_FRAME();
}

static void (*made_at_run_time)(void (*)(void));
static void make_code(void) {
  void* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, (const void*)bare_call, (size_t)(bare_end - (const char*)bare_call));
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  made_at_run_time = (void (*)(void (*)(void)))code;
}

static NOINLINE void through_bare(int depth) {
  PUSH_FRAME();
  bare_depth = depth;
  SKIP_FOREIGN_FRAMES();
  depth % 2 == 0 ? bare_call(called_by_bare) : made_at_run_time(called_by_bare);
  POP_FRAME();
  KEEP_FRAME;
  POP_FRAME();
}
#endif

static NOINLINE void any(int depth) {
  PUSH_FRAME();
  switch (depth <= 0 ? kNowhere : random_below(kWays)) {
    case kNowhere: check(); break;
    case 0: through_registers(depth - 1, depth, 3, 5, 7, 11, 13); break;
    case 1: through_array(depth - 1); break;
    case 2: through_alloca(depth - 1); break;
    case 3: through_realigned_stack(depth - 1); break;
#ifdef HAS_BARE_CODE
    case 4: through_bare(depth - 1); break;
#endif
#ifndef NO_TABLES_IN_LIBC
    case 5: through_qsort(depth - 1); break;
    case 6: through_signal(depth - 1); break;
#endif
    default: through_nothing(depth - 1); break;
  }
  POP_FRAME();
}

// ---- where stacks begin ----

static void* thread_main(void* argument) {
  state = (unsigned long)argument;
  PUSH_FRAME();
  for (int i = 0; i < 50; i++) any(i % 12);
  POP_FRAME();
  return NULL;
}

static NOINLINE int recurse(int n) {
  PUSH_FRAME();
  int result = 1;
  if (n == 0) {
    check();
  } else {
    if (n > kMaxNoted / 2) POP_FRAME();  // neither the notes nor a capture have room for more
    result += recurse(n - 1);
    if (n > kMaxNoted / 2) PUSH_FRAME();
  }
  POP_FRAME();
  return result;
}

#ifdef __GLIBC__
static ucontext_t fibre, back;
static void fibre_main(void) {
  int outer = expected_count;
  uintptr_t kept[kMaxNoted];
  memcpy(kept, (uintptr_t*)expected_frames, sizeof(kept));
  expected_count = 0;
  PUSH_FRAME();
  for (int i = 0; i < 20; i++) any(i % 8);
  memcpy((uintptr_t*)expected_frames, kept, sizeof(kept));
  expected_count = outer;
  swapcontext(&fibre, &back);
}

static NOINLINE void run_fibre(void) {
  enum { kBytes = 512 * 1024 };
  char* map = mmap(NULL, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(map + 4096, kBytes - 8192, PROT_READ | PROT_WRITE);
  getcontext(&fibre);
  fibre.uc_stack.ss_sp = map + 4096;
  fibre.uc_stack.ss_size = kBytes - 8192;
  fibre.uc_link = &back;
  makecontext(&fibre, fibre_main, 0);
  swapcontext(&back, &fibre);
  munmap(map, kBytes);
}
#endif

#ifdef WITHOUT_INDEX
static int count_index(struct dl_phdr_info* info, size_t size, void* context) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++)
    *(int*)context += info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME;
  return 1;  // the program comes first
}
#endif

int main(void) {
  PUSH_FRAME();
#ifdef WITHOUT_INDEX
  int indexes = 0;
  dl_iterate_phdr(count_index, &indexes);
  if (indexes != 0) return 1;
#endif
  handle_signals();
#ifdef HAS_BARE_CODE
  make_code();
#endif
  state = 1;
  for (int i = 0; i < 400; i++) any(i % 20);
  for (int n = 0; n < 100000; n = n * 3 + 1) {
    if (recurse(n) != n + 1) return 1;
  }
#ifdef __GLIBC__
  for (int i = 0; i < 5; i++) run_fibre();
#endif
  pthread_t threads[3];
  for (size_t i = 0; i < 3; i++) pthread_create(&threads[i], NULL, thread_main, (void*)(i + 2));
  for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  if (checks < 400) return 1;
  puts("ok");
  return 0;
}
