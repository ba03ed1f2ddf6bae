#include "core/profile/sample_pace.h"

#include "core/base/units.h"
#include "core/os/os.h"

namespace seemalloc::profile {

namespace {
constexpr uint64_t kSecond_ns = 1000 * kMillisecond_ns;
constexpr uint64_t kPeriods = 64;  // looks per second at the limit
}  // namespace

void SamplePace::count(uint64_t limit) {
  samples_++;
  if (since_ns_ == 0 || samples_ > limit / kPeriods) look(os::thread_cpu_ns(), limit);
}

void SamplePace::relax(uint64_t limit) {
  if (stretch_ == 0) return;
  uint64_t now = os::thread_cpu_ns();
  if (since_ns_ == 0 || now < since_ns_ || now - since_ns_ >= kSecond_ns / kPeriods) look(now, limit);
}

void SamplePace::look(uint64_t cpu_ns, uint64_t limit) {
  if (since_ns_ != 0 && cpu_ns >= since_ns_) {  // a forked child's clock begins anew
    double elapsed_s = static_cast<double>(cpu_ns - since_ns_) / static_cast<double>(kSecond_ns);
    double allowed = elapsed_s * static_cast<double>(limit);
    double expected = samples_ == 0 ? 1 : samples_;
    spent_s_ += expected / static_cast<double>(limit) - elapsed_s;
    if (spent_s_ < 0) spent_s_ = 0;
    for (; spent_s_ > 1 && expected > allowed && stretch_ < kMaxStretch; expected /= 2) stretch_++;
    if (spent_s_ > 1) spent_s_ = 1;
    // Not before it would be well below the limit afterwards, or it would go to and fro.
    for (; expected * 4 <= allowed && stretch_ > 0; expected *= 2) stretch_--;
  }
  since_ns_ = cpu_ns;
  samples_ = 0;
}

void SamplePace::restart() {
  since_ns_ = 0;
  samples_ = 0;
}

}  // namespace seemalloc::profile
