// Common parts of the workloads: a random sequence that is the same each time, a clock, a block to
// write to, memory figures.
//
// Workloads are ordinary programs on the allocator they are started with (LD_PRELOAD; nothing is
// linked). They touch each block they allocate, because a block that is never written costs
// nothing. One thread each unless a workload says otherwise. They print their own measurements as
// lines "NAME VALUE". No helper here except `allocate_touched` allocates.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace workload {

// xorshift64*: a few cycles, so that the allocator dominates. The seed may not be 0.
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
  // Uniform in [first, last], both below 2^32.
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }

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

inline void wait_ms(long milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Writes the first and last byte, as a program that uses the block would, and keeps the compiler
// from removing it.
inline void touch(char* block, size_t bytes) {
  block[0] = 1;
  block[bytes - 1] = 1;
  asm volatile("" : : "r"(block) : "memory");
}

// A new block, touched.
inline char* allocate_touched(size_t bytes) {
  char* block = static_cast<char*>(malloc(bytes));
  touch(block, bytes);
  return block;
}

// The nth argument as a number, or the default.
inline long argument(int count, char** arguments, int n, long fallback) {
  return n < count ? strtol(arguments[n], nullptr, 10) : fallback;
}

// Prints "NAME VALUE" for the runner: the time of one phase, for example.
inline void metric(const char* name, double value) { printf("%s %.6f\n", name, value); }

// The figure after `field` in a file of /proc/self; 0 when the file cannot be read.
inline double proc_kib(const char* path, const char* field) {
  char text[4096];
  const int file = open(path, O_RDONLY);
  const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[length > 0 ? length : 0] = 0;
  const char* found = strstr(text, field);
  return found ? strtod(found + strlen(field), nullptr) : 0;
}

// The largest resident size of this program since exec (rusage's figure would include the runner's
// own, from before exec).
inline double peak_kib() { return proc_kib("/proc/self/status", "VmHWM:"); }

// The resident size now, by the kernel's approximate counter: it lags by some hundred KiB.
inline double approximate_resident_kib() { return proc_kib("/proc/self/status", "VmRSS:"); }

// The same, exact: takes some milliseconds for each 300 MiB.
inline double resident_kib() {
  const double exact = proc_kib("/proc/self/smaps_rollup", "\nRss:");
  return exact > 0 ? exact : approximate_resident_kib();
}

// Prints the peak, which every workload does at its end.
inline void report() { metric("peak_kib", peak_kib()); }

}  // namespace workload
