#include "core/profile/sampling/sample_rate_limiter.h"

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"

namespace seemalloc::profile {

namespace {
constexpr uint64_t kPeriods = 64;  // checks per second at the limit

std::atomic<uint64_t> burst_in_use{0}, burst_decayed_ns{0};

// Halves the shared advance each second, because threads that have exited pay nothing back. This
// bounds how far all threads together may exceed the limit.
void decay_burst() {
  uint64_t now = os::coarse_monotonic_ns(),
           before = burst_decayed_ns.load(std::memory_order_relaxed);
  if (now - before < kSecondNs ||
      !burst_decayed_ns.compare_exchange_strong(before, now, std::memory_order_relaxed))
    return;
  uint64_t seconds = (now - before) / kSecondNs,
           taken = burst_in_use.load(std::memory_order_relaxed);
  while (!burst_in_use.compare_exchange_weak(taken, taken >> (seconds < 63 ? seconds : 63),
                                             std::memory_order_relaxed)) {
  }
}

// Takes up to `samples` from the shared advance. Returns how many were granted.
uint32_t take_from_burst(uint64_t samples, uint64_t most) {
  uint64_t taken = burst_in_use.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t left = saturating_subtract(most, taken), got = samples < left ? samples : left;
    if (got == 0) return 0;
    if (burst_in_use.compare_exchange_weak(taken, taken + got, std::memory_order_relaxed))
      return static_cast<uint32_t>(got);
  }
}

void return_to_burst(uint64_t samples) {
  uint64_t taken = burst_in_use.load(std::memory_order_relaxed);
  while (!burst_in_use.compare_exchange_weak(taken, saturating_subtract(taken, samples),
                                             std::memory_order_relaxed)) {
  }
}

// The samples of all threads that exited before their first check, charged as one thread.
struct ShortThreads {
  std::atomic<uint32_t> samples{0};      // not yet charged to the pace
  std::atomic<uint8_t> backoff_log2{0};  // back-off of the pace
  std::atomic<bool> busy{false};         // a thread is using the pace
  SampleRateLimiter pace;
  std::atomic<uint64_t> charged_ns{0};  // time of the last charge, by the coarse clock
};
constinit ShortThreads short_threads;
}  // namespace

unsigned SampleRateLimiter::short_threads_backoff() {
  return short_threads.backoff_log2.load(std::memory_order_relaxed);
}

void SampleRateLimiter::count_sample(Limit limit) {
  if (++samples_ > limit.per_second / kPeriods) check(os::thread_cpu_ns(), limit);
}

bool SampleRateLimiter::is_check_due(uint64_t cpu_ns, Limit limit) const {
  uint64_t period = kSecondNs / kPeriods, min_period = 4 * kSecondNs / limit.per_second;
  return cpu_ns < since_ns_ || cpu_ns - since_ns_ >= (period > min_period ? period : min_period);
}

void SampleRateLimiter::check_idle(Limit limit) {
  if (backoff_log2() == 0) return;
  // To read the process's CPU time, the kernel walks over all its threads.
  uint64_t waited =
      os::coarse_monotonic_ns() - short_threads.charged_ns.load(std::memory_order_relaxed);
  if (short_threads_backoff() != 0 && waited >= kSecondNs / kPeriods) check_short_threads(limit);
  uint64_t now = os::thread_cpu_ns();
  if (is_check_due(now, limit)) check(now, limit);
}

void SampleRateLimiter::check(uint64_t cpu_ns, Limit limit) {
  if (cpu_ns >= since_ns_) {  // a forked child's clock starts at zero
    double elapsed_s = static_cast<double>(cpu_ns - since_ns_) / static_cast<double>(kSecondNs);
    double allowed = elapsed_s * static_cast<double>(limit.per_second);
    double expected = samples_ == 0 ? 1 : samples_, more = excess_ + expected - allowed;
    excess_ = 0;
    if (more >= 1) {
      decay_burst();
      uint32_t got = take_from_burst(static_cast<uint64_t>(more), limit.burst);
      borrowed_samples_ += got;
      if (more - got < 1) excess_ = more - got;
      for (; more - got >= 1 && expected > allowed && backoff_log2_ < kMaxBackoff; expected /= 2)
        backoff_log2_++;
    } else if (more > -1) {
      excess_ = more;
    } else if (borrowed_samples_ != 0) {
      uint32_t paid = -more < borrowed_samples_ ? static_cast<uint32_t>(-more) : borrowed_samples_;
      borrowed_samples_ -= paid;
      return_to_burst(paid);
    }
    // Lower the back-off only if the rate stays well below the limit afterwards. Otherwise it would
    // oscillate.
    for (; expected * 4 <= allowed && backoff_log2_ > 0; expected *= 2) backoff_log2_--;
  }
  since_ns_ = cpu_ns;
  samples_ = 0;
  checked_ = true;
}

void SampleRateLimiter::thread_exits(Limit limit) {
  constexpr uint32_t kFew = 8;
  if (checked_) {
    if (samples_ > kFew) check(os::thread_cpu_ns(), limit);
    return;
  }
  if (samples_ == 0) return;
  uint32_t all = short_threads.samples.fetch_add(samples_, std::memory_order_relaxed) + samples_;
  samples_ = 0;
  if (all > limit.per_second / kPeriods) check_short_threads(limit);
}

void SampleRateLimiter::check_short_threads(Limit limit) {
  if (short_threads.busy.exchange(true, std::memory_order_acquire)) return;
  short_threads.charged_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  SampleRateLimiter& pace = short_threads.pace;
  uint64_t now = os::process_cpu_ns();
  // Another thread may have charged them meanwhile.
  if (short_threads.samples.load(std::memory_order_relaxed) > limit.per_second / kPeriods ||
      (pace.backoff_log2_ != 0 && pace.is_check_due(now, limit))) {
    pace.samples_ = short_threads.samples.exchange(0, std::memory_order_relaxed);
    pace.check(now, limit);
    short_threads.backoff_log2.store(pace.backoff_log2_, std::memory_order_relaxed);
  }
  short_threads.busy.store(false, std::memory_order_release);
}

void SampleRateLimiter::adopt() {
  if (!checked_ && backoff_log2_ > 0) backoff_log2_--;  // no check has confirmed it
  since_ns_ = 0;
  samples_ = 0;
  borrowed_samples_ = 0;  // belonged to the former thread
  excess_ = 0;
  checked_ = false;
}

void SampleRateLimiter::reset_in_child() {
  short_threads.busy.store(false, std::memory_order_relaxed);
}

void SampleRateLimiter::reset_for_test() {
  burst_in_use.store(0, std::memory_order_relaxed);
  burst_decayed_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  short_threads.samples.store(0, std::memory_order_relaxed);
  short_threads.backoff_log2.store(0, std::memory_order_relaxed);
  short_threads.pace = SampleRateLimiter{};
}

}  // namespace seemalloc::profile
