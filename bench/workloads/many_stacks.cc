// many_stacks [STACKS] [DUMPS] [PROFILE]: makes one block by each of STACKS different stacks; then writes a heap profile DUMPS times,
// while a second thread goes on allocating and frees, and notes the longest time between two of its steps. With every allocation
// recorded (sample:1) each stack is in the profile. It is written to PROFILE and kept, if that is given.
//
// Stands for: a large program with a profile of many stacks: how long writing one takes, and whether the others are
// stopped meanwhile. Each figure is the longest of all DUMPS. The second thread's longest pause without a dump, over the same
// time, is what the machine does to it.
#include <seemalloc/seemalloc.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "workload.h"

#pragma weak seemalloc_profile_dump  // absent under other allocators

namespace {

std::vector<char*> blocks;

// Each number goes down another way: left or right by its bits.
__attribute__((noinline)) void left(unsigned number, unsigned depth);
__attribute__((noinline)) void right(unsigned number, unsigned depth);
void go_on(unsigned number, unsigned depth) {
  if (depth == 0) {
    blocks.push_back(workload::fresh(64));
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

std::atomic<bool> over{false};
std::atomic<double> longest_s{0};

void work() {
  std::vector<char*> own(64);
  workload::Random random(7);
  workload::Clock clock;
  for (double before = 0; !over;) {
    char*& place = own[random.below(own.size())];
    free(place);
    place = workload::fresh(16 + random.below(500));
    const double now = clock.seconds();
    if (now - before > longest_s) longest_s = now - before;
    before = now;
  }
  for (char* block : own) free(block);
}

double longest_pause_us() { return longest_s.exchange(0) * 1e6; }

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
  std::vector<double> took, paused, undisturbed;
  for (long i = 0; i < dumps; ++i) {
    workload::wait_ms(50);
    longest_pause_us();
    workload::Clock clock;
    if (seemalloc_profile_dump(path) != 0) return 1;
    took.push_back(clock.seconds() * 1e3);
    paused.push_back(longest_pause_us());
    workload::wait_ms(static_cast<long>(took.back()) + 1);
    undisturbed.push_back(longest_pause_us());
  }
  over = true;
  other.join();
  if (path == temporary) unlink(path);
  workload::metric("dump_ms", *std::max_element(took.begin(), took.end()));
  workload::metric("longest_pause_us", *std::max_element(paused.begin(), paused.end()));
  workload::metric("longest_pause_without_us", *std::max_element(undisturbed.begin(), undisturbed.end()));
  workload::report();
}
