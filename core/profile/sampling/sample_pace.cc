#include "core/profile/sampling/sample_pace.h"

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"

namespace seemalloc::profile {

namespace {
constexpr uint64_t kPeriods = 64;  // checks per second at the limit

std::atomic<uint64_t> taken_in_advance{0}, halved_ns{0};

// Halves the shared advance each second, because threads that have exited pay nothing back. This
// bounds how far all threads together may exceed the limit.
void write_off() {
  uint64_t now = os::coarse_monotonic_ns(), before = halved_ns.load(std::memory_order_relaxed);
  if (now - before < kSecond_ns ||
      !halved_ns.compare_exchange_strong(before, now, std::memory_order_relaxed))
    return;
  uint64_t seconds = (now - before) / kSecond_ns,
           taken = taken_in_advance.load(std::memory_order_relaxed);
  while (!taken_in_advance.compare_exchange_weak(taken, taken >> (seconds < 63 ? seconds : 63),
                                                 std::memory_order_relaxed)) {
  }
}

// Takes up to `samples` from the shared advance. Returns how many were granted.
uint32_t take(uint64_t samples, uint64_t most) {
  uint64_t taken = taken_in_advance.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t left = minus(most, taken), got = samples < left ? samples : left;
    if (got == 0) return 0;
    if (taken_in_advance.compare_exchange_weak(taken, taken + got, std::memory_order_relaxed))
      return static_cast<uint32_t>(got);
  }
}

void give_back(uint64_t samples) {
  uint64_t taken = taken_in_advance.load(std::memory_order_relaxed);
  while (!taken_in_advance.compare_exchange_weak(taken, minus(taken, samples),
                                                 std::memory_order_relaxed)) {
  }
}

// The samples of all threads that exited before their first check, charged as one thread.
struct ShortThreads {
  std::atomic<uint32_t> samples{0};  // not yet charged to the pace
  std::atomic<uint8_t> stretch{0};   // back-off of the pace
  std::atomic<bool> busy{false};     // a thread is using the pace
  SamplePace pace;
  std::atomic<uint64_t> charged_ns{0};  // time of the last charge, by the coarse clock
};
constinit ShortThreads short_threads;
}  // namespace

unsigned SamplePace::stretch_of_short_threads() {
  return short_threads.stretch.load(std::memory_order_relaxed);
}

void SamplePace::count(Limit limit) {
  if (++samples_ > limit.per_second / kPeriods) look(os::thread_cpu_ns(), limit);
}

bool SamplePace::is_time(uint64_t cpu_ns, Limit limit) const {
  uint64_t period = kSecond_ns / kPeriods, of_four = 4 * kSecond_ns / limit.per_second;
  return cpu_ns < since_ns_ || cpu_ns - since_ns_ >= (period > of_four ? period : of_four);
}

void SamplePace::relax(Limit limit) {
  if (stretch() == 0) return;
  // To read the process's CPU time, the kernel walks over all its threads.
  uint64_t waited =
      os::coarse_monotonic_ns() - short_threads.charged_ns.load(std::memory_order_relaxed);
  if (stretch_of_short_threads() != 0 && waited >= kSecond_ns / kPeriods)
    charge_short_threads(limit);
  uint64_t now = os::thread_cpu_ns();
  if (is_time(now, limit)) look(now, limit);
}

void SamplePace::look(uint64_t cpu_ns, Limit limit) {
  if (cpu_ns >= since_ns_) {  // a forked child's clock starts at zero
    double elapsed_s = static_cast<double>(cpu_ns - since_ns_) / static_cast<double>(kSecond_ns);
    double allowed = elapsed_s * static_cast<double>(limit.per_second);
    double expected = samples_ == 0 ? 1 : samples_, more = owed_ + expected - allowed;
    owed_ = 0;
    if (more >= 1) {
      write_off();
      uint32_t got = take(static_cast<uint64_t>(more), limit.in_advance);
      advance_ += got;
      if (more - got < 1) owed_ = more - got;
      for (; more - got >= 1 && expected > allowed && stretch_ < kMaxStretch; expected /= 2)
        stretch_++;
    } else if (more > -1) {
      owed_ = more;
    } else if (advance_ != 0) {
      uint32_t paid = -more < advance_ ? static_cast<uint32_t>(-more) : advance_;
      advance_ -= paid;
      give_back(paid);
    }
    // Lower the back-off only if the rate stays well below the limit afterwards. Otherwise it would
    // oscillate.
    for (; expected * 4 <= allowed && stretch_ > 0; expected *= 2) stretch_--;
  }
  since_ns_ = cpu_ns;
  samples_ = 0;
  looked_ = true;
}

void SamplePace::end(Limit limit) {
  constexpr uint32_t kFew = 8;
  if (looked_) {
    if (samples_ > kFew) look(os::thread_cpu_ns(), limit);
    return;
  }
  if (samples_ == 0) return;
  uint32_t all = short_threads.samples.fetch_add(samples_, std::memory_order_relaxed) + samples_;
  samples_ = 0;
  if (all > limit.per_second / kPeriods) charge_short_threads(limit);
}

void SamplePace::charge_short_threads(Limit limit) {
  if (short_threads.busy.exchange(true, std::memory_order_acquire)) return;
  short_threads.charged_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  SamplePace& pace = short_threads.pace;
  uint64_t now = os::process_cpu_ns();
  // Another thread may have charged them meanwhile.
  if (short_threads.samples.load(std::memory_order_relaxed) > limit.per_second / kPeriods ||
      (pace.stretch_ != 0 && pace.is_time(now, limit))) {
    pace.samples_ = short_threads.samples.exchange(0, std::memory_order_relaxed);
    pace.look(now, limit);
    short_threads.stretch.store(pace.stretch_, std::memory_order_relaxed);
  }
  short_threads.busy.store(false, std::memory_order_release);
}

void SamplePace::restart() {
  if (!looked_ && stretch_ > 0) stretch_--;  // no check has confirmed it
  since_ns_ = 0;
  samples_ = 0;
  advance_ = 0;  // belonged to the former thread
  owed_ = 0;
  looked_ = false;
}

void SamplePace::reset_in_child() { short_threads.busy.store(false, std::memory_order_relaxed); }

void SamplePace::forget_all_for_test() {
  taken_in_advance.store(0, std::memory_order_relaxed);
  halved_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  short_threads.samples.store(0, std::memory_order_relaxed);
  short_threads.stretch.store(0, std::memory_order_relaxed);
  short_threads.pace = SamplePace{};
}

}  // namespace seemalloc::profile
