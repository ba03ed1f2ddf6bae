// many_stacks [STACKS] [DUMPS] [PROFILE]: allocates one block from each of STACKS different stacks;
// then writes a heap profile DUMPS times, while a second thread continues to allocate and free, and
// records the longest time between two of its steps. With every allocation recorded (sample:1) each
// stack is in the profile. It is written to PROFILE and kept, if that is given.
//
// Stands for: a large program with a profile of many stacks: how long writing one takes, and
// whether other threads are blocked meanwhile. Each figure is the maximum over all DUMPS. The
// second thread's longest pause without a dump, over the same time, is caused by the machine.
// …_held_us is the longest of the pauses after subtracting, by the kernel's accounting, the time
// taken by other processes: the time that the thread was ready and waited for a processor, and the
// time that its processor was taken from the whole (virtual) machine.
#include <seemalloc/seemalloc.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "workload.h"

#pragma weak seemalloc_profile_dump  // absent under other allocators

namespace {

std::vector<char*> blocks;

// Each number takes another path: left or right by its bits.
__attribute__((noinline)) void left(unsigned number, unsigned depth);
__attribute__((noinline)) void right(unsigned number, unsigned depth);
void go_on(unsigned number, unsigned depth) {
  if (depth == 0) {
    blocks.push_back(workload::allocate_touched(64));
  } else if (number & 1) {
    left(number >> 1, depth - 1);
  } else {
    right(number >> 1, depth - 1);
  }
}
void left(unsigned number, unsigned depth) {
  go_on(number, depth);
  asm volatile("");  // no tail call
}
void right(unsigned number, unsigned depth) {
  go_on(number, depth);
  asm volatile("");
}

// The kernel's accounting for the thread that creates it.
class Account {
 public:
  struct Figures {
    // Running on a processor; ready, without one (0 where the kernel does not report it).
    double ran_s, waited_s;
    long sleeps;
  };
  Figures read() const {
    char text[96];
    const ssize_t length = pread(file_, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    // Time run, as of the last tick; time waited; turns; in ns.
    const char* second = strchr(text, ' ');
    timespec ran{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return {static_cast<double>(ran.tv_sec) + static_cast<double>(ran.tv_nsec) * 1e-9,
            second ? strtod(second, nullptr) * 1e-9 : 0, usage.ru_nvcsw};
  }

 private:
  // Kept until the process ends.
  const int file_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
};

// The part of a pause that is not explained by waiting for a processor. If the thread has slept
// (for a lock, say), all but its wait for a processor afterwards; else only its running time.
double held_s(double pause_s, const Account::Figures& before, const Account::Figures& after) {
  if (after.sleeps != before.sleeps) return pause_s - (after.waited_s - before.waited_s);
  return std::min(pause_s, after.ran_s - before.ran_s);
}

struct Pause {
  double whole_us, held_us;
};

std::atomic<bool> over{false};
std::atomic<double> longest_s{0}, longest_held_s{0};

void keep_longest(std::atomic<double>& longest, double seconds) {
  if (seconds > longest) longest = seconds;
}

void work() {
  std::vector<char*> own(64);
  workload::Random random(7);
  workload::Clock clock;
  // The accounting is read after each step long enough to have been a pause, and often enough that
  // other steps add a negligible amount.
  constexpr double kMayBePauseS = 10e-6;
  constexpr unsigned kSteps = 256;
  const Account account;
  Account::Figures last = account.read();
  unsigned step = 0;
  for (double before = clock.seconds(); !over;) {
    char*& place = own[random.below(own.size())];
    free(place);
    place = workload::allocate_touched(16 + random.below(500));
    const double now = clock.seconds();
    double held = now - before;
    keep_longest(longest_s, held);
    if (held > kMayBePauseS || ++step % kSteps == 0) {
      const Account::Figures until_now = account.read();
      held = held_s(held, last, until_now);
      last = until_now;
    }
    keep_longest(longest_held_s, held);
    before = now;
  }
  for (char* block : own) free(block);
}

Pause longest_pause() { return {longest_s.exchange(0) * 1e6, longest_held_s.exchange(0) * 1e6}; }

void report_longest(const char* name, const char* held_name, const std::vector<Pause>& pauses) {
  auto longest = [&](double Pause::*which) {
    double most = 0;
    for (const Pause& pause : pauses) most = std::max(most, pause.*which);
    return most;
  };
  workload::metric(name, longest(&Pause::whole_us));
  workload::metric(held_name, longest(&Pause::held_us));
}

}  // namespace

int main(int count, char** arguments) {
  const unsigned stacks = workload::argument(count, arguments, 1, 100'000);
  const long dumps = workload::argument(count, arguments, 2, 5);
  if (!seemalloc_profile_dump) return 1;
  blocks.reserve(stacks);
  for (unsigned i = 0; i < stacks; ++i) go_on(i, 17);

  char temporary[] = "/tmp/many_stacks.XXXXXX";
  const char* path = count > 3 ? arguments[3] : temporary;
  if (path == temporary) {
    if (int file = mkstemp(temporary); file < 0 || close(file) != 0) return 1;
  }
  std::thread other(work);
  std::vector<double> took;
  std::vector<Pause> paused, undisturbed;
  for (long i = 0; i < dumps; ++i) {
    workload::wait_ms(50);
    longest_pause();
    workload::Clock clock;
    if (seemalloc_profile_dump(path) != 0) return 1;
    took.push_back(clock.seconds() * 1e3);
    paused.push_back(longest_pause());
    workload::wait_ms(static_cast<long>(took.back()) + 1);
    undisturbed.push_back(longest_pause());
  }
  over = true;
  other.join();
  if (path == temporary) unlink(path);
  workload::metric("dump_ms", *std::max_element(took.begin(), took.end()));
  report_longest("longest_pause_us", "longest_pause_held_us", paused);
  report_longest("longest_pause_without_us", "longest_pause_without_held_us", undisturbed);
  workload::report();
}
