// Threads that end by the bare system call: no destructor and no C library code runs, and the
// allocator is not notified. Once they are joined, their stacks, which hold the thread-local
// memory, are unmapped by the program (unmapped; while other threads walk the heaps: beside) or
// given to the next thread (reused). Other threads get the memory of the ended ones (much).
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { kBlocks = 600, kStack = 1 << 18 };

struct Thread {
  pthread_t id;
  void* stack;
  unsigned long state;
  int bare, waits;
  int pipe[2];
  void* blocks[kBlocks];
  size_t sizes[kBlocks];
};

static void* live(void* argument) {
  struct Thread* t = (struct Thread*)argument;
  for (int i = 0; i < kBlocks; i++) {
    t->sizes[i] = 1 + random_below(&t->state, 1200);
    t->blocks[i] = marked(malloc(t->sizes[i]), t->sizes[i]);
  }
  char byte;
  if (t->waits) EXPECT(read(t->pipe[0], &byte, 1) == 1);
  // The free blocks are then on the thread's lists.
  for (int i = 0; i < kBlocks; i += 2) free_marked(t->blocks[i], t->sizes[i]);
  for (int i = 0; i < kBlocks; i += 4)
    free_marked(marked(malloc(t->sizes[i]), t->sizes[i]), t->sizes[i]);
  if (t->bare) syscall(SYS_exit, 0);
  return NULL;
}

static void start(struct Thread* t, void* stack, int bare) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  t->stack = stack;
  t->bare = bare;
  EXPECT(pthread_attr_setstack(&attributes, stack, kStack) == 0);
  EXPECT(pthread_create(&t->id, &attributes, live, t) == 0);
}

static void end(struct Thread* t) {
  EXPECT(pthread_join(t->id, NULL) == 0);
  for (int i = 1; i < kBlocks; i += 2) free_marked(t->blocks[i], t->sizes[i]);
}

static void* new_stack(void) {
  void* stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(stack != MAP_FAILED);
  return stack;
}

// No block may be allocated twice.
static void use_memory(unsigned long state) {
  static struct Thread mine;
  mine.state = state;
  live(&mine);
  for (int i = 1; i < kBlocks; i += 2) free_marked(mine.blocks[i], mine.sizes[i]);
}

static void look_in_child(void) {
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    for (unsigned long i = 0; i < 20; i++) use_memory(i);
    malloc_trim(0);
    for (unsigned long i = 0; i < 20; i++) use_memory(i);
    _exit(0);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
}

static void look(void) {
  look_in_child();
  mallinfo2();
  malloc_trim(0);
  mallinfo2();
  use_memory(3);
}

static void unmapped(void) {
  static struct Thread threads[20];
  for (unsigned long i = 0; i < 20; i++) {
    threads[i].state = i;
    start(&threads[i], new_stack(), 1);
  }
  for (int i = 0; i < 20; i++) {
    EXPECT(pthread_join(threads[i].id, NULL) == 0);
    EXPECT(munmap(threads[i].stack, kStack) == 0);
  }
  look();
  for (int i = 0; i < 20; i++) {
    for (int k = 1; k < kBlocks; k += 2) free_marked(threads[i].blocks[k], threads[i].sizes[k]);
  }
}

static void start_to_wait(struct Thread* t, void* stack) {
  EXPECT(pipe(t->pipe) == 0);
  t->waits = 1;
  start(t, stack, 0);
  usleep(20000);  // until the thread waits; the test also holds before that
}

static void go_on(struct Thread* t) {
  EXPECT(write(t->pipe[1], "", 1) == 1);
  end(t);
}

// The second thread is likely to get the memory of the earlier one, besides that of the first.
static void reused(void) {
  static struct Thread earlier, first, second;
  void* stack = new_stack();
  start_to_wait(&earlier, new_stack());
  start(&first, stack, 1);
  end(&first);
  go_on(&earlier);
  second.state = 7;
  start_to_wait(&second, stack);
  use_memory(5);
  look();
  go_on(&second);
  look();
}

static volatile int done;
static void* look_on(void* unused) {
  while (!done) {
    mallinfo2();
    malloc_trim(0);
  }
  return unused;
}

static void beside(void) {
  pthread_t looker;
  EXPECT(pthread_create(&looker, NULL, look_on, NULL) == 0);
  static struct Thread thread;
  for (unsigned long i = 0; i < 300; i++) {
    thread.state = i;
    start(&thread, new_stack(), 1);
    end(&thread);
    EXPECT(munmap(thread.stack, kStack) == 0);
    if (i % 100 == 0) look_in_child();
  }
  done = 1;
  EXPECT(pthread_join(looker, NULL) == 0);
}

enum { kMany = 40, kEach = 20000, kKept = 10, kBytes = 200 };

static void* leave_most_memory(void* kept) {
  void** blocks = (void**)malloc(kEach * sizeof(void*));
  for (int i = 0; i < kEach; i++) blocks[i] = marked(malloc(kBytes), kBytes);
  for (int i = 0; i < kEach; i++) {
    if (i % kKept == 0) {
      ((void**)kept)[i / kKept] = blocks[i];
    } else {
      free_marked(blocks[i], kBytes);
    }
  }
  free(blocks);
  syscall(SYS_exit, 0);
  return NULL;
}

static size_t resident_bytes(void) {
  unsigned long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file != NULL && fscanf(file, "%lu %lu", &all, &resident) == 2);
  fclose(file);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

// Each thread leaves 4 MB behind, of which a tenth is live: later threads reuse the rest.
static void much(void) {
  static void* kept[kMany][kEach / kKept];
  size_t before = resident_bytes();
  for (int i = 0; i < kMany; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, leave_most_memory, kept[i]) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    if (i % 4 == 0) malloc_trim(0);
  }
  malloc_trim(0);
  EXPECT(resident_bytes() - before < ((size_t)kMany * kEach * kBytes) / 2);
  for (int i = 0; i < kMany; i++) {
    for (int k = 0; k < kEach / kKept; k++) free_marked(kept[i][k], kBytes);
  }
}

int main(int argc, char** argv) {
  expect_subject();
  EXPECT(argc == 2);
  const char* way = argv[1];
  if (strcmp(way, "unmapped") == 0) unmapped();
  if (strcmp(way, "reused") == 0) reused();
  if (strcmp(way, "beside") == 0) beside();
  if (strcmp(way, "much") == 0) much();
  return ok();
}
