// libpin.so: gives each thread of a benchmark a CPU of its own, from the first pthread_create on.
//
// Without pinning the scheduler sometimes keeps two threads of a workload on one CPU for a while,
// so that a run with two threads takes one of two times at random. Preloaded before the allocator,
// because some allocators wrap a thread's function into one of their own (rule 3 could not
// recognise it).
// Threads: any may create threads.
//
// 1. The thread that creates the first thread is pinned to the first of the CPUs that the process
//    may use, and is not counted: most such threads only wait from then on. The first created
//    thread gets the second CPU.
// 2. Each further thread gets the CPU with the fewest live threads; on a tie, its creator's CPU,
//    since the creator often ends or waits, or the next CPU in turn if its creator is not counted.
//    Plain round-robin would put successive threads together.
// 3. Threads that the allocator starts itself (their function is in the library that defines
//    malloc) are not pinned and not counted: they may run on any of the process's CPUs.
// 4. Nothing here allocates: the program's own use of malloc is measured.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

typedef int create_function(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

enum { kNowhere = -1, kStarts = 1024 };

// The instructions for a new thread, from its creation until it has read them.
struct start {
  _Atomic int taken;
  void* (*routine)(void*);
  void* argument;
  int place;
};

static struct start starts[kStarts];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static create_function* real_create;
static struct link_map* allocator;
static cpu_set_t allowed;
static int cpu_count;
static int cpus[CPU_SETSIZE];  // of each place

static atomic_flag lock = ATOMIC_FLAG_INIT;
static int living[CPU_SETSIZE];  // threads at each place; under the lock
static int next_place;           // under the lock
static __thread int own_place = kNowhere;

// dladdr() would search all symbols of the library, for each thread.
static struct link_map* library_of(const void* code) {
  struct dl_find_object found;
  return _dl_find_object((void*)code, &found) == 0 ? found.dlfo_link_map : NULL;
}

static void prepare(void) {
  real_create = (create_function*)dlsym(RTLD_NEXT, "pthread_create");
  // Not &malloc, which in some programs is an address of their own.
  allocator = library_of(dlsym(RTLD_NEXT, "malloc"));
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed)) cpus[cpu_count++] = cpu;
  }
}

static void run_at(int place) {
  cpu_set_t one;
  CPU_ZERO(&one);
  if (place != kNowhere) CPU_SET(cpus[place], &one);
  sched_setaffinity(0, sizeof one, place == kNowhere ? &allowed : &one);
}

static void lock_places(void) {
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) sched_yield();
}

static void unlock_places(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

// Rules 1 and 2. Counts the new thread.
static int take_place(void) {
  lock_places();
  int first = next_place == 0;
  if (first) next_place = 1;
  int best = own_place != kNowhere ? own_place : next_place++ % cpu_count;
  for (int i = 1, place = best; i < cpu_count; i++) {
    place = (place + 1) % cpu_count;
    if (living[place] < living[best]) best = place;
  }
  living[best]++;
  unlock_places();
  if (first) run_at(0);
  return best;
}

static void leave_place(void* unused) {
  (void)unused;
  if (own_place == kNowhere) return;
  lock_places();
  living[own_place]--;
  unlock_places();
}

static void* begin(void* argument) {
  struct start* start = argument;
  void* (*routine)(void*) = start->routine;
  void* its_argument = start->argument;
  void* result;
  own_place = start->place;
  atomic_store_explicit(&start->taken, 0, memory_order_release);  // pairs with take_start
  run_at(own_place);
  pthread_cleanup_push(leave_place, NULL);  // the thread may also end by pthread_exit
  result = routine(its_argument);
  pthread_cleanup_pop(1);
  return result;
}

static struct start* take_start(void) {
  for (;;) {
    for (int i = 0; i < kStarts; i++) {
      int no = 0;
      if (atomic_compare_exchange_strong_explicit(&starts[i].taken, &no, 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
        return &starts[i];
      }
    }
    sched_yield();  // 1024 threads have been created but have not run yet
  }
}

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*routine)(void*), void* argument) {
  pthread_once(&once, prepare);
  int place = library_of((const void*)routine) == allocator ? kNowhere : take_place();
  struct start* start = take_start();
  start->routine = routine;
  start->argument = argument;
  start->place = place;
  int result = real_create(thread, attributes, begin, start);
  if (result != 0) {
    atomic_store_explicit(&start->taken, 0, memory_order_release);
    lock_places();
    if (place != kNowhere) living[place]--;
    unlock_places();
  }
  return result;
}
