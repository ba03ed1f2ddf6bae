// Measures how much stack each call needs below its caller: on a painted stack, in a signal handler
// and in a fibre, in new threads and by random calls. Also checks that nothing is written below an
// alternate stack of 8 KiB. Usage: stack_depth [print].
//
// Under another allocator it measures, and expects nothing.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "expect.h"

enum {
  kLimit = 4608,
  kStackBytes = 32 * 1024,
  kGuardBytes = 64 * 1024,
  kPaint = 0xA5,
  kBlocks = 512,
  kThreads = 6,
  kRounds = 12,
  kCalls = 250
};
enum {
  kMalloc,
  kLarge,
  kHuge,
  kCalloc,
  kRealloc,
  kAligned,
  kFree,
  kUsable,
  kTrim,
  kImpossible,
  kFork,
  kKinds
};
static const char* const kNames[kKinds] = {
    "malloc", "malloc, large",      "malloc, huge", "calloc",          "realloc", "aligned_alloc",
    "free",   "malloc_usable_size", "malloc_trim",  "malloc, refused", "fork"};
static _Atomic size_t deepest[kKinds];
static _Atomic(void*) blocks[kBlocks];  // of all threads, which free each other's blocks

static __thread char* stack_low;
static __thread unsigned long state;
static __thread int paints;

static char* map_stack(size_t bytes) {
  char* memory = mmap(NULL, kGuardBytes + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(memory != MAP_FAILED);
  EXPECT(mprotect(memory + kGuardBytes, bytes, PROT_READ | PROT_WRITE) == 0);
  return memory + kGuardBytes;
}
static void unmap_stack(char* stack, size_t bytes) {
  munmap(stack - kGuardBytes, kGuardBytes + bytes);
}

#if defined(__x86_64__)
#define STACK_POINTER(to) __asm__ volatile("movq %%rsp, %0" : "=r"(to))
#else
#define STACK_POINTER(to) __asm__ volatile("mov %0, sp" : "=r"(to))
#endif

static void put(void* block) {
  free(atomic_exchange(&blocks[random_below(&state, kBlocks)], block));
}
static void* take(void) { return atomic_exchange(&blocks[random_below(&state, kBlocks)], NULL); }

// The call itself, at the depth of this function.
__attribute__((noipa)) static size_t one_call(int kind, void** block, size_t size) {
  enum { kNear = 256 };  // this function's own frame, and the compiler's space below it
  char* here;
  STACK_POINTER(here);
  if (paints) {
    for (volatile char* at = stack_low; at < here - kNear; at++) *at = (char)kPaint;
  }
  switch (kind) {
    case kMalloc:
    case kLarge:
    case kHuge:
    case kImpossible: *block = malloc(size); break;
    case kCalloc: *block = calloc(1, size); break;
    case kRealloc: *block = realloc(*block, size); break;
    case kAligned: *block = aligned_alloc((size_t)16 << size % 14, size); break;
    case kFree: free(*block); break;
    case kUsable: malloc_usable_size(*block); break;
    case kTrim: malloc_trim(0); break;
    case kFork: *block = (void*)(intptr_t)fork(); break;
  }
  if (!paints) return 0;
  volatile char* at = stack_low;
  while (at < here - kNear && *at == (char)kPaint) at++;
  return (size_t)(here - at);
}

static size_t size_for(int kind) {
  if (kind == kLarge) return 32768 + random_below(&state, 900000);
  if (kind == kHuge) return (1 << 20) + random_below(&state, 24 << 20);
  if (kind == kImpossible) return (size_t)1 << 50;
  return random_size(&state);
}

static void some_call(int forks) {
  int kind = (int)random_below(&state, forks ? kKinds : kFork);
  if ((kind == kTrim || kind == kFork || kind == kHuge) && random_below(&state, 8) != 0)
    kind = kMalloc;
  void* block = kind == kRealloc || kind == kFree || kind == kUsable ? take() : NULL;
  if (kind == kUsable && block == NULL) return;
  size_t used = one_call(kind, &block, size_for(kind));
  if (kind == kFork) {
    pid_t child = (pid_t)(intptr_t)block;
    if (child == 0) {
      for (int i = 0; i < 40; i++) put(NULL), some_call(0);
      _exit(0);
    }
    int status = 0;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  } else if (kind == kImpossible) {
    EXPECT(block == NULL);
  } else if (kind != kFree && kind != kTrim) {
    if (block != NULL && kind != kUsable) *(volatile char*)block = 1;
    put(block);
  }
  size_t most = atomic_load(&deepest[kind]);
  while (used > most && !atomic_compare_exchange_weak(&deepest[kind], &most, used)) {
  }
}

static int forks_too;

static void on_signal(int number) {
  (void)number;
  int saved = errno;
  for (int i = 0; i < (paints ? kCalls : 4); i++) some_call(forks_too);
  errno = saved;
}

static __thread ucontext_t thread_context, fibre;
static void fibre_main(void) {
  for (int i = 0; i < kCalls; i++) some_call(forks_too);
}

static void use_signal_stack(char* stack, size_t bytes) {
  stack_t alternate = {.ss_sp = stack, .ss_size = bytes};
  EXPECT(sigaltstack(&alternate, NULL) == 0);
}

// The first call of a new thread runs on that stack.
static void* thread_main(void* argument) {
  state = (unsigned long)(intptr_t)argument * 77 + 1;
  paints = 1;
  stack_low = map_stack(kStackBytes);
  use_signal_stack(stack_low, kStackBytes);
  char* lower = stack_low;
  char* other = map_stack(kStackBytes);
  for (int round = 0; round < kRounds; round++) {
    if ((round + (intptr_t)argument) % 2 != 0) {
      stack_low = lower;
      raise(SIGUSR1);
      continue;
    }
    stack_low = other;
    EXPECT(getcontext(&fibre) == 0);
    fibre.uc_stack.ss_sp = other;
    fibre.uc_stack.ss_size = kStackBytes;
    fibre.uc_link = &thread_context;
    makecontext(&fibre, fibre_main, 0);
    swapcontext(&thread_context, &fibre);
  }
  use_signal_stack(lower, kStackBytes);
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  unmap_stack(lower, kStackBytes);
  unmap_stack(other, kStackBytes);
  return NULL;
}

// A guard page is below the stack: a call that needs more ends the process.
static void* small_thread_main(void* argument) {
  state = (unsigned long)(intptr_t)argument * 99 + 5;
  size_t bytes = 8192, page = (size_t)sysconf(_SC_PAGESIZE), frame = getauxval(AT_MINSIGSTKSZ);
  if (frame + kLimit > bytes) bytes = (frame + kLimit + page - 1) / page * page;
  if (page > bytes) bytes = page;
  char* stack = map_stack(bytes);
  use_signal_stack(stack, bytes);
  for (int i = 0; i < 400; i++) raise(SIGUSR1);
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  unmap_stack(stack, bytes);
  return NULL;
}

static void run(void* (*body)(void*), intptr_t first) {
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; i++)
    EXPECT(pthread_create(&threads[i], NULL, body, (void*)(first + i)) == 0);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
}

int main(int count, char** arguments) {
  (void)arguments;
  expect_subject();
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  const char* expected = getenv("EXPECT_SEEMALLOC");
  int is_ours = expected != NULL && *expected != 0;
  // Runs in a process of its own: some work is done once per process, and the deepest of it must
  // fit, too.
  pid_t child = is_ours ? fork() : 0;
  if (is_ours && child == 0) {
    run(small_thread_main, 200);
    _exit(0);
  }
  int status = 0;
  if (is_ours) EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  for (int round = 0; round < 2; round++) run(thread_main, 1 + round * 10);
  forks_too = 1;
  thread_main((void*)100);
  forks_too = 0;
  size_t most = 0;
  for (int kind = 0; kind < kKinds; kind++) {
    size_t used = atomic_load(&deepest[kind]);
    if (count > 1) printf("%6zu %s\n", used, kNames[kind]);
    // The stack that fork itself needs is the C library's.
    if (kind != kFork && used > most) most = used;
  }
  if (count > 1) printf("a signal's frame: %lu\n", getauxval(AT_MINSIGSTKSZ));
  if (is_ours) EXPECT(most <= kLimit);
  return ok();
}
