// What every workload needs: a random sequence that is the same each time, a clock, and the report at the end.
//
// Workloads are ordinary programs on the allocator they are started with (LD_PRELOAD; nothing is linked). They touch each
// block they get, because a block nobody writes to costs nothing. One thread each unless a workload says otherwise.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace workload {

// xorshift64*: a few cycles, so what is measured is the allocator. The seed may not be 0.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1Du) >> 16;
  }
  // Uniform in [0, limit), limit < 2^32.
  uint64_t below(uint64_t limit) { return (next() & 0xFFFFFFFF) * limit >> 32; }

 private:
  uint64_t state_;
};

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Writes the first and last byte, as a program that uses the block would, and keeps the compiler from removing it.
inline void touch(char* block, size_t bytes) {
  block[0] = 1;
  block[bytes - 1] = 1;
  asm volatile("" : : "r"(block) : "memory");
}

// The nth argument as a number, or the default.
inline long argument(int count, char** arguments, int n, long fallback) {
  return n < count ? strtol(arguments[n], nullptr, 10) : fallback;
}

// Prints "NAME VALUE" for the runner: the time of one phase, say.
inline void metric(const char* name, double value) { printf("%s %.6f\n", name, value); }

// Prints the largest resident size of this program since exec (rusage's figure would include the runner's own, from
// before exec). Read without malloc.
inline void report() {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY);
  const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (length <= 0) return;
  text[length] = 0;
  if (const char* peak = strstr(text, "VmHWM:")) metric("peak_kib", strtod(peak + 6, nullptr));
}

}  // namespace workload
