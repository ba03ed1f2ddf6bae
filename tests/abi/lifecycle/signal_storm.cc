// Many signals whose handler does not allocate: interrupted system calls and locks inside the
// allocator must not be noticeable.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>

#include "expect.h"

namespace {

constexpr int kSignals = 10000, kBlocksEach = 3000;
std::atomic<int> storms{0};
std::atomic<int> threads_done{0};
std::atomic<size_t*> slots[256];
std::atomic<bool> stop{false};

void handler(int) { storms.fetch_add(1, std::memory_order_relaxed); }

void* hammer(void* argument) {
  unsigned long state = reinterpret_cast<unsigned long>(argument);
  for (int blocks = 0; !stop.load(std::memory_order_relaxed); blocks++) {
    if (blocks == kBlocksEach) threads_done++;
    errno = 77;
    size_t size = sizeof(size_t) + random_size(&state) * (random_below(&state, 50) == 0 ? 8 : 1);
    auto block = static_cast<size_t*>(malloc(size));
    EXPECT(block != nullptr);
    *block = size;
    reinterpret_cast<unsigned char*>(block)[size - 1] = static_cast<unsigned char>(size);
    size_t* old = slots[random_below(&state, 256)].exchange(block);
    if (old != nullptr) {
      EXPECT(reinterpret_cast<unsigned char*>(old)[*old - 1] == static_cast<unsigned char>(*old));
      free(old);
    }
    EXPECT(errno == 77);
  }
  return nullptr;
}

}  // namespace

int main() {
  expect_subject();
  struct sigaction action = {};
  action.sa_handler = handler;  // no SA_RESTART: calls return EINTR
  sigaction(SIGALRM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  itimerval every = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &every, nullptr);
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) {
    EXPECT(pthread_create(&threads[i], nullptr, hammer, reinterpret_cast<void*>(i + 1)) == 0);
  }
  // The amount of work is fixed, so that a busy machine only takes longer.
  while (storms.load() < kSignals || threads_done.load() < 4) {
    for (pthread_t thread : threads) pthread_kill(thread, SIGUSR1);
  }
  stop = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  every = {};
  setitimer(ITIMER_REAL, &every, nullptr);
  for (auto& slot : slots) free(slot.exchange(nullptr));
  return ok();
}
