// Threads with names that hold known amounts, print "ready", and then use CPU time as commanded.
//
// alpha holds 500 blocks in hold() and 100 in hold_apart(), beta 250 in hold(), gone, which has
// ended, 80; main 50. "b": alpha uses 0.6 s in burn(), beta 0.3 s.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define KNOWN extern "C" __attribute__((noinline)) void

static void* kept[4096];
static std::atomic<int> count;

#define HOLD(n, bytes)                       \
  for (int i = 0; i < n; i++) {              \
    void* block = malloc(bytes);             \
    *static_cast<volatile char*>(block) = 1; \
    kept[count++] = block;                   \
  }                                          \
  asm volatile("")

KNOWN hold(int n) { HOLD(n, 1024); }
KNOWN hold_apart(int n) { HOLD(n, 4096); }

static double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
KNOWN burn(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
    for (int i = 0; i < 100000; i++) asm volatile("" : "+r"(i));
  }
}

static std::atomic<int> ready, round, done;
static void work(const char* name, int held, int apart, double seconds) {
  pthread_setname_np(pthread_self(), name);
  hold(held);
  hold_apart(apart);
  ready++;
  for (int mine = 0;; mine++) {
    while (round == mine) round.wait(mine);
    burn(seconds);
    done++;
    done.notify_all();
  }
}

int main() {
  std::thread gone([] {
    pthread_setname_np(pthread_self(), "gone");
    hold(80);
  });
  gone.join();
  hold(50);
  std::thread(work, "alpha", 500, 100, 0.6).detach();
  std::thread(work, "beta", 250, 0, 0.3).detach();
  while (ready != 2) std::this_thread::yield();
  puts("ready");
  fflush(stdout);
  for (int command; (command = getchar()) != EOF;) {
    if (command == 'b') {
      done = 0;
      round++;
      round.notify_all();
      for (int seen; (seen = done) != 2;) done.wait(seen);
    }
    if (command == '\n') {
      puts("done");
      fflush(stdout);
    }
  }
  _Exit(0);
}
