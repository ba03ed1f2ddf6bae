// fork of a program with 8 threads that allocate and free all the time. The child is usable at
// once: it frees blocks of all threads, allocates, starts threads, forks again, execs. A lock held
// by a thread that does not exist in the child would hang it.
//   fork_storm           the storm
//   fork_storm exec      the program that the grandchild executes
#include <pthread.h>
#include <sys/wait.h>

#include <atomic>

#include "expect.h"

namespace {

constexpr int kThreads = 8, kSlots = 64, kForks = 60;
std::atomic<bool> stop{false};

// Each slot holds a block with its size in the first word; blocks are exchanged between threads, so
// frees are mostly remote.
std::atomic<size_t*> slots[kThreads * kSlots];

size_t* sized_block(size_t size) {
  if (size < sizeof(size_t)) size = sizeof(size_t);
  auto block = static_cast<size_t*>(malloc(size));
  EXPECT(block != nullptr);
  memset(block, 0x5c, size);
  *block = size;
  return block;
}

void free_sized_block(size_t* block) {
  if (block == nullptr) return;
  size_t size = *block;
  auto bytes = reinterpret_cast<unsigned char*>(block);
  if (size > sizeof(size_t)) EXPECT(bytes[size - 1] == 0x5c);
  free(block);
}

void* hammer(void* argument) {
  auto state = reinterpret_cast<unsigned long>(argument);
  while (!stop.load(std::memory_order_relaxed)) {
    size_t* old =
        slots[random_below(&state, kThreads * kSlots)].exchange(sized_block(random_size(&state)));
    free_sized_block(old);
  }
  return nullptr;
}

void* short_thread(void*) {
  for (size_t size = 1; size < 200000; size = size * 3 + 1)
    free_marked(marked(malloc(size), size), size);
  return nullptr;
}

void wait_for(pid_t pid) {
  EXPECT(pid > 0);
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

[[noreturn]] void child(int turn, char* self) {
  alarm(15);  // a deadlock here must not outlive the test
  unsigned long state = static_cast<unsigned long>(turn) + 99;
  for (auto& slot : slots) free_sized_block(slot.exchange(sized_block(random_size(&state))));
  for (auto& slot : slots) free_sized_block(slot.exchange(nullptr));
  if (turn % 2 == 0) {
    pthread_t threads[3];
    for (pthread_t& thread : threads)
      EXPECT(pthread_create(&thread, nullptr, short_thread, nullptr) == 0);
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  if (turn % 3 == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) {
      short_thread(nullptr);
      execl(self, self, "exec", nullptr);
      _exit(3);
    }
    wait_for(grandchild);
  }
  short_thread(nullptr);
  if (turn % 4 == 1) exit(0);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  expect_subject();
  if (argc > 1) {
    short_thread(nullptr);
    return 0;
  }
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; i++) {
    EXPECT(pthread_create(&threads[i], nullptr, hammer, reinterpret_cast<void*>(i + 1)) == 0);
  }
  for (int turn = 0; turn < kForks; turn++) {
    usleep(2000);
    pid_t pid = fork();
    if (pid == 0) child(turn, argv[0]);
    wait_for(pid);
  }
  stop = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  for (auto& slot : slots) free_sized_block(slot.exchange(nullptr));
  return ok();
}
