#include "core/os/runtime/scratch.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "core/os/kernel/fault.h"

namespace seemalloc::os {
namespace {

struct Page {
  char bytes[kScratchBytes];
};

TEST(Scratch, BuffersAreDistinctAndComeBack) {
  for (int round = 0; round < 3; round++) {
    std::set<void*> buffers;
    for (unsigned i = 0; i < kScratchBuffers; i++) buffers.insert(acquire_scratch());
    EXPECT_EQ(buffers.size(), kScratchBuffers);
    EXPECT_EQ(buffers.count(nullptr), 0u);
    for (void* buffer : buffers) release_scratch(buffer);
  }
}

TEST(Scratch, APageIsMappedWhereAllAreTakenAndNothingWhereThatIsRefused) {
  std::vector<void*> buffers;
  for (unsigned i = 0; i < kScratchBuffers; i++) buffers.push_back(acquire_scratch());
  {
    Scratch<Page> more;
    ASSERT_TRUE(more);
    memset(more->bytes, 7, sizeof(Page));
    for (void* buffer : buffers) EXPECT_NE(static_cast<void*>(&*more), buffer);
    FailCalls refuse(SYS_mmap, ENOMEM);
    Scratch<Page> none;
    EXPECT_FALSE(none);
  }
  for (void* buffer : buffers) release_scratch(buffer);
  FailCalls refuse(SYS_mmap, ENOMEM);
  Scratch<Page> again;
  EXPECT_TRUE(again);
}

struct Counted {
  explicit Counted(int& alive) : alive(alive) { alive++; }
  ~Counted() { alive--; }
  int& alive;
};

TEST(Scratch, ObjectsAreMadeAndDestroyed) {
  int alive = 0;
  {
    Scratch<Counted> object(alive);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

// More threads than buffers, interrupted by a signal handler: each finds its own writes.
std::atomic<unsigned> mixed_up{0};
void use_a_buffer(unsigned char mark) {
  Scratch<Page> page;
  if (!page) return;
  memset(page->bytes, mark, sizeof(Page));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (size_t i = 0; i < sizeof(Page); i += 64) {
    if (static_cast<unsigned char>(page->bytes[i]) != mark) mixed_up++;
  }
}
void on_signal(int) { use_a_buffer(0xEE); }

TEST(Scratch, NoTwoHoldersShareABuffer) {
  struct sigaction action {
  }, before;
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, &before);
  std::vector<std::thread> threads;
  std::atomic<unsigned> running{24};
  for (unsigned t = 0; t < 24; t++) {
    threads.emplace_back([t, &running] {
      for (int i = 0; i < 2000; i++) use_a_buffer(static_cast<unsigned char>(t + 1));
      running--;
    });
  }
  for (unsigned i = 0; running != 0; i++) {
    pthread_kill(threads[i % threads.size()].native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(mixed_up, 0u);
}

TEST(Scratch, ForkedChildRecoversBuffersOfOtherThreads) {
  std::atomic<bool> holds{false}, enough{false};
  std::thread other([&] {
    std::vector<void*> buffers;
    for (unsigned i = 0; i < kScratchBuffers; i++) buffers.push_back(acquire_scratch());
    holds = true;
    while (!enough) std::this_thread::yield();
    for (void* buffer : buffers) release_scratch(buffer);
  });
  while (!holds) std::this_thread::yield();
  pid_t child = fork();
  if (child == 0) {
    release_scratch_in_child();
    FailCalls refuse(SYS_mmap, ENOMEM);
    Scratch<Page> page;
    _exit(page ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  enough = true;
  other.join();
}

TEST(Scratch, ForkedChildKeepsBuffersOfItsThread) {
  void* held = acquire_scratch();
  pid_t child = fork();
  if (child == 0) {
    release_scratch_in_child();
    _exit(acquire_scratch() != held ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  release_scratch(held);
}

}  // namespace
}  // namespace seemalloc::os
