// A library that the program is linked with. Its constructor runs before a preloaded allocator's,
// so its prepare handler runs after the allocator's, and its other handlers before the allocator's:
// all of them run while the allocator holds its locks.
#include <pthread.h>
#include <stddef.h>

void (*fork_faults_in_prepare)(void);
void (*fork_faults_in_parent)(void);
void (*fork_faults_in_child)(void);

static void call(void (*handler)(void)) {
  if (handler != NULL) handler();
}
static void prepare(void) { call(fork_faults_in_prepare); }
static void parent(void) { call(fork_faults_in_parent); }
static void child(void) { call(fork_faults_in_child); }

__attribute__((constructor)) static void before_the_allocator(void) {
  pthread_atfork(prepare, parent, child);
}
