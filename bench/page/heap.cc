// heap [STACKS] [MIB]: holds MIB MiB, allocated by STACKS different stacks, and then allocates and
// frees without end. Each second it prints how many blocks it has allocated in that second, so that
// the cost of live profiling is visible.
//
// Stands for: a large program that is profiled live.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

std::vector<char*> kept;
size_t bytes_each;

void left(unsigned number, unsigned depth);
void right(unsigned number, unsigned depth);
void go_on(unsigned number, unsigned depth) {
  if (depth == 0) {
    kept.push_back(static_cast<char*>(memset(malloc(bytes_each), 1, bytes_each)));
  } else if (number & 1) {
    left(number >> 1, depth - 1);
  } else {
    right(number >> 1, depth - 1);
  }
}
__attribute__((noinline)) void left(unsigned number, unsigned depth) {
  go_on(number, depth);
  asm volatile("");  // no tail call
}
__attribute__((noinline)) void right(unsigned number, unsigned depth) {
  go_on(number, depth);
  asm volatile("");
}

}  // namespace

int main(int count, char** arguments) {
  const unsigned stacks = count > 1 ? atoi(arguments[1]) : 20'000;
  const size_t mib = count > 2 ? atoi(arguments[2]) : 1024;
  bytes_each = (mib << 20) / stacks;
  kept.reserve(stacks);
  for (unsigned i = 0; i < stacks; i++) go_on(i, 17);
  puts("ready");
  fflush(stdout);
  std::vector<char*> own(1000);
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    unsigned long done = 0;
    while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) {
      for (unsigned i = 0; i < 1000; i++, done++) {
        free(own[i]);
        own[i] = static_cast<char*>(malloc(16 + (i * 7919 + done) % 2000));
        own[i][0] = 1;
      }
    }
    printf("%lu\n", done);
    fflush(stdout);
  }
}
