#include "core/profile/sampling/lifetimes.h"

namespace seemalloc::profile {

namespace {

constexpr const char* kNames[kAgeClasses] = {
    "under 1us",   "1us to 10us", "10us to 100us", "100us to 1ms",  "1ms to 10ms", "10ms to 100ms",
    "100ms to 1s", "1s to 10s",   "10s to 100s",   "100s to 1000s", "over 1000s"};

void atomic_add(std::atomic<double>& sum, double x) {
  double before = sum.load(std::memory_order_relaxed);
  while (!sum.compare_exchange_weak(before, before + x, std::memory_order_relaxed)) {
  }
}

void atomic_max(std::atomic<uint64_t>& most, uint64_t x) {
  uint64_t before = most.load(std::memory_order_relaxed);
  while (before < x && !most.compare_exchange_weak(before, x, std::memory_order_relaxed)) {
  }
}

}  // namespace

const char* age_class_name(unsigned age_class) { return kNames[age_class]; }

void Lifetimes::add_nonzero_single_writer(uint64_t ns) {
  double x = static_cast<double>(ns);
  sum_.store(sum_.load(std::memory_order_relaxed) + x, std::memory_order_relaxed);
  squares_.store(squares_.load(std::memory_order_relaxed) + x * x, std::memory_order_relaxed);
  if (ns > max_.load(std::memory_order_relaxed)) max_.store(ns, std::memory_order_relaxed);
  if (~ns > inverted_min_.load(std::memory_order_relaxed))
    inverted_min_.store(~ns, std::memory_order_relaxed);
  increment_single_writer(age_class_of(ns));
}

void Lifetimes::add(uint64_t ns) {
  if (ns == 0) {
    if (inverted_min_.load(std::memory_order_relaxed) != UINT64_MAX)
      inverted_min_.store(UINT64_MAX, std::memory_order_relaxed);
    counts_[0].fetch_add(1, std::memory_order_release);
    return;
  }
  double x = static_cast<double>(ns);
  atomic_add(sum_, x);
  atomic_add(squares_, x * x);
  atomic_max(max_, ns);
  atomic_max(inverted_min_, ~ns);
  counts_[age_class_of(ns)].fetch_add(1, std::memory_order_release);
}

void Lifetimes::clear() {
  for (std::atomic<uint64_t>& count : counts_) count.store(0, std::memory_order_release);
  for (std::atomic<double>* sum : {&sum_, &squares_}) sum->store(0, std::memory_order_release);
  for (std::atomic<uint64_t>* age : {&max_, &inverted_min_})
    age->store(0, std::memory_order_release);
}

uint64_t Lifetimes::count() const {
  uint64_t sum = 0;
  for (unsigned c = 0; c < kAgeClasses; c++) sum += count(c);
  return sum;
}

}  // namespace seemalloc::profile
