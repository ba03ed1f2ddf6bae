// Forks from eight threads that are inside malloc most of the time. A child is a copy of one thread
// in the middle of the others' work: it must be able to allocate, to free blocks that any thread
// had allocated, and to start threads of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8, kForks = 40, kSlots = 64;
// Blocks of all threads: any child may free any of them.
std::atomic<char*> exchange[kSlots];
std::atomic<int> ended_well;

char* make_block(unsigned& seed) {
  seed = seed * 1664525 + 1013904223;
  const size_t bytes = (seed >> 8) % 100 == 0 ? 200000 : 16 + (seed >> 12) % 2000;
  char* block = static_cast<char*>(malloc(bytes));
  memset(block, 'k', bytes);
  return block;
}

void swap_blocks(unsigned& seed, int times) {
  for (int i = 0; i < times; ++i) {
    char* old = exchange[(seed >> 20) % kSlots].exchange(make_block(seed));
    if (old && (old[0] != 'k' || old[15] != 'k')) abort();
    free(old);
  }
}

[[noreturn]] void child(unsigned seed, int number) {
  alarm(60);  // a deadlock ends here; the parent sees it as a signal
  swap_blocks(seed, 2000);
  std::vector<std::string> some;
  for (int i = 0; i < 1000; ++i) some.emplace_back(i, 'c');
  for (int i = 0; i < 1000; ++i) {
    if (some[i] != std::string(i, 'c')) _exit(2);
  }
  if (number % 2 == 0) {
    std::thread one([seed]() mutable { swap_blocks(seed, 500); });
    one.join();
  }
  if (number % 4 == 0) {
    if (fork() == 0) {
      swap_blocks(seed, 500);
      _exit(0);
    }
    int status = 0;
    wait(&status);
    if (status) _exit(3);
  }
  if (number % 8 == 0) execl("/bin/true", "true", nullptr);
  if (number % 3 == 0) exit(0);  // destructors and atexit handlers run too
  _exit(0);
}

void fork_often(int thread) {
  unsigned seed = 977 * (thread + 1);
  for (int i = 0; i < kForks; ++i) {
    swap_blocks(seed, 1000);
    const pid_t pid = fork();
    if (pid == 0) child(seed, i);
    if (pid < 0) {
      perror("fork");
      exit(1);
    }
    swap_blocks(seed, 1000);
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      ++ended_well;
    else
      fprintf(stderr, "child %d of thread %d: status %x\n", i, thread, status);
  }
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(fork_often, i);
  for (auto& thread : threads) thread.join();
  printf("%d children ended well\n", ended_well.load());
}
