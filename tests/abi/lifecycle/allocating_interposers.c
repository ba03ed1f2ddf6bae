// A library of functions in front of the C library's. They count their calls in thread-local
// memory, and allocate before and after they call the original, like wrappers that look up the next
// function by dlsym, keep tables or write logs. Each name that the allocator calls or has called is
// here, and others that it might call. With ONLY_TLS they do not allocate.
//
// interposed.c, the program, asks how many times they ran.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int calls;
int interposed_calls(void) { return __atomic_load_n(&calls, __ATOMIC_RELAXED); }

// A thread that the C library does not know of has no such memory.
static __thread struct {
  unsigned long calls;
  int is_allocating;
} thread;

// Allocates small blocks, blocks larger than the thread's lists, large and huge blocks; each call
// also replaces a block that was kept for a while, so that free lists run out.
static void allocate(void) {
  static void* kept[64];
  static unsigned turn;
  __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  thread.calls++;
#ifdef ONLY_TLS
  return;
#endif
  static const size_t sizes[] = {24, 700, 5000, 40000, 300000, 2000000};
  unsigned now = __atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED);
  void* block = now % 2 == 0 ? malloc(sizes[now % 6]) : calloc(1, sizes[now % 6]);
  if (block != NULL) memset(block, 1, 16);
  block = realloc(block, 100 + now % 1000);
  free(__atomic_exchange_n(&kept[now % 64], block, __ATOMIC_ACQ_REL));
}

// For functions that the allocator itself must call (realloc copies a block): they do not allocate
// when they are called from an allocation of this thread's.
static void allocate_once(void) {
  thread.calls++;
  if (thread.is_allocating) return;
  thread.is_allocating = 1;
  allocate();
  thread.is_allocating = 0;
}

// Looks the next function up by dlvsym: dlsym is one of the interposed functions.
static void* next_of(const char* name) {
  static void* (*next_dlsym)(void*, const char*);
  if (next_dlsym == NULL)
    next_dlsym = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (next_dlsym == NULL)
    next_dlsym = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (next_dlsym == NULL)
    next_dlsym = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
  return next_dlsym(RTLD_NEXT, name);
}

#define INTERPOSE(type, name, parameters, arguments)             \
  type name parameters {                                         \
    static type(*next) parameters;                               \
    if (next == NULL) next = (type(*) parameters)next_of(#name); \
    allocate();                                                  \
    type result = next arguments;                                \
    allocate();                                                  \
    return result;                                               \
  }

#pragma GCC diagnostic ignored "-Wnonnull-compare"

INTERPOSE(int, clock_gettime, (clockid_t id, struct timespec* out), (id, out))
INTERPOSE(int, gettimeofday, (struct timeval* restrict out, void* restrict zone), (out, zone))
INTERPOSE(time_t, time, (time_t * out), (out))
INTERPOSE(int, dl_iterate_phdr, (int (*visit)(struct dl_phdr_info*, size_t, void*), void* data),
          (visit, data))
INTERPOSE(void*, dlopen, (const char* name, int flags), (name, flags))
INTERPOSE(int, dlclose, (void* handle), (handle))
INTERPOSE(int, dladdr, (const void* address, Dl_info* info), (address, info))
INTERPOSE(int, sigaction, (int signal, const struct sigaction* action, struct sigaction* old),
          (signal, action, old))
INTERPOSE(int, pthread_sigmask, (int how, const sigset_t* set, sigset_t* old), (how, set, old))
INTERPOSE(int, sigprocmask, (int how, const sigset_t* set, sigset_t* old), (how, set, old))
INTERPOSE(int, pthread_create,
          (pthread_t * thread, const pthread_attr_t* attributes, void* (*run)(void*),
           void* argument),
          (thread, attributes, run, argument))
INTERPOSE(int, pthread_attr_init, (pthread_attr_t * attributes), (attributes))
INTERPOSE(int, pthread_attr_destroy, (pthread_attr_t * attributes), (attributes))
INTERPOSE(int, pthread_attr_setstacksize, (pthread_attr_t * attributes, size_t bytes),
          (attributes, bytes))
INTERPOSE(int, pthread_attr_setdetachstate, (pthread_attr_t * attributes, int state),
          (attributes, state))
INTERPOSE(int, pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))
INTERPOSE(int, __pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))
INTERPOSE(int, pthread_key_delete, (pthread_key_t key), (key))
INTERPOSE(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value))
INTERPOSE(int, __register_atfork,
          (void (*prepare)(void), void (*parent)(void), void (*child)(void), void* object),
          (prepare, parent, child, object))
INTERPOSE(int, __cxa_thread_atexit_impl, (void (*destroy)(void*), void* object, void* library),
          (destroy, object, library))
INTERPOSE(pid_t, fork, (void), ())
INTERPOSE(char*, getenv, (const char* name), (name))
INTERPOSE(long, sysconf, (int name), (name))
INTERPOSE(void*, sbrk, (intptr_t by), (by))
INTERPOSE(ssize_t, getrandom, (void* buffer, size_t bytes, unsigned flags), (buffer, bytes, flags))
INTERPOSE(int, sched_yield, (void), ())
INTERPOSE(int, sched_getaffinity, (pid_t pid, size_t bytes, cpu_set_t* cpus), (pid, bytes, cpus))
INTERPOSE(void*, mmap,
          (void* address, size_t bytes, int protection, int flags, int file, off_t offset),
          (address, bytes, protection, flags, file, offset))
INTERPOSE(int, munmap, (void* address, size_t bytes), (address, bytes))
INTERPOSE(int, madvise, (void* address, size_t bytes, int advice), (address, bytes, advice))
INTERPOSE(int, mprotect, (void* address, size_t bytes, int protection),
          (address, bytes, protection))
INTERPOSE(ssize_t, read, (int file, void* buffer, size_t bytes), (file, buffer, bytes))
INTERPOSE(ssize_t, write, (int file, const void* buffer, size_t bytes), (file, buffer, bytes))
INTERPOSE(int, close, (int file), (file))
INTERPOSE(size_t, fwrite,
          (const void* restrict data, size_t size, size_t count, FILE* restrict file),
          (data, size, count, file))
INTERPOSE(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
INTERPOSE(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
INTERPOSE(int, sigfillset, (sigset_t * set), (set))
INTERPOSE(unsigned long, getauxval, (unsigned long type), (type))
int __sigaction(int signal, const struct sigaction* action, struct sigaction* old);
INTERPOSE(int, __sigaction, (int signal, const struct sigaction* action, struct sigaction* old),
          (signal, action, old))
#ifdef DLFO_STRUCT_HAS_EH_DBASE  // glibc 2.35
INTERPOSE(int, _dl_find_object, (void* address, struct dl_find_object* found), (address, found))
#endif

// Prevents the compiler from turning a loop into a call of the function that contains it.
#define STEP __asm__ volatile("")

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  allocate_once();
  for (size_t i = 0; i < bytes; i++) {
    ((char*)to)[i] = ((const char*)from)[i];
    STEP;
  }
  return to;
}

void* memmove(void* to, const void* from, size_t bytes) {
  allocate_once();
  for (size_t i = 0; i < bytes; i++) {
    size_t at = (char*)to < (const char*)from ? i : bytes - 1 - i;
    ((char*)to)[at] = ((const char*)from)[at];
    STEP;
  }
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  allocate_once();
  for (size_t i = 0; i < bytes; i++) {
    ((char*)to)[i] = (char)value;
    STEP;
  }
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  allocate_once();
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < bytes; i++) {
    if (x[i] != y[i]) return x[i] - y[i];
    STEP;
  }
  return 0;
}

size_t strlen(const char* s) {
  allocate_once();
  size_t length = 0;
  while (s[length] != 0) {
    length++;
    STEP;
  }
  return length;
}

char* strchr(const char* s, int c) {
  allocate_once();
  while (*s != 0 && *s != (char)c) {
    s++;
    STEP;
  }
  return *s == (char)c ? (char*)s : NULL;
}

// Functions that the macro cannot generate. dlsym(RTLD_NEXT) depends on its caller: nothing follows
// the call, so that it is compiled to a jump.
void* dlsym(void* restrict handle, const char* restrict name) {
  static void* (*next)(void*, const char*);
  if (next == NULL) next = (void* (*)(void*, const char*))next_of("dlsym");
  allocate();
  return next(handle, name);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  allocate();
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
