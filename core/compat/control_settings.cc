#include "core/compat/control_settings.h"

#include <atomic>
#include <bit>

#include "core/api/runtime_options.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc::compat {

using options::Id;

namespace {

// The interval while sampling is off; 0: it never was on.
std::atomic<uint64_t> last_interval{0};

options::Purge purge_mode() { return static_cast<options::Purge>(options::get(Id::purge)); }

}  // namespace

bool set_option_to(const char* name, const char* value) {
  FixedText<512> problem;
  return set_option(name, text_length(name), value, problem) == SetOption::kDone;
}

bool set_option_to(const char* name, uint64_t value) {
  FixedText<32> text;
  text << value;
  return set_option_to(name, text.c_str());
}

ssize_t decay_ms() {
  switch (purge_mode()) {
    case options::Purge::kNever:
      return -1;
    case options::Purge::kEager:
      return 0;
    case options::Purge::kBalanced:
      break;
  }
  return static_cast<ssize_t>(options::get(Id::purge_delay));
}

bool set_decay_ms(ssize_t ms) {
  if (ms < -1) return false;
  if (ms == -1) return set_option_to("purge", "never");
  uint64_t most = options::row(Id::purge_delay).max;
  uint64_t delay = static_cast<uint64_t>(ms) < most ? static_cast<uint64_t>(ms) : most;
  return set_option_to("purge_delay", delay) && set_option_to("purge", "balanced");
}

double release_rate() {
  double usual = static_cast<double>(options::row(Id::purge_delay).fallback);
  ssize_t delay = decay_ms();
  if (delay < 0) return 0;
  return usual / static_cast<double>(delay > 0 ? delay : 1);
}

void set_release_rate(double rate) {
  if (!(rate > 0)) {
    set_option_to("purge", "never");
    return;
  }
  double delay = static_cast<double>(options::row(Id::purge_delay).fallback) / rate;
  double most = static_cast<double>(options::row(Id::purge_delay).max);
  set_decay_ms(static_cast<ssize_t>(delay < most ? delay : most));
}

bool sampling_is_on() { return options::get(Id::sample) != 0; }

bool switch_sampling(bool on) {
  uint64_t now = options::get(Id::sample);
  if (on == (now != 0)) return true;
  if (!on) {
    last_interval.store(now, std::memory_order_relaxed);
    return set_option_to("sample", uint64_t{0});
  }
  uint64_t last = last_interval.load(std::memory_order_relaxed);
  return set_option_to("sample", last != 0 ? last : options::row(Id::sample).fallback);
}

size_t sample_interval_log2() {
  uint64_t interval = options::get(Id::sample);
  if (interval == 0) interval = last_interval.load(std::memory_order_relaxed);
  if (interval == 0) interval = options::row(Id::sample).fallback;
  return static_cast<size_t>(std::bit_width(interval)) - 1;
}

bool set_sample_interval_log2(size_t log2) {
  if (log2 >= 64 || uint64_t{1} << log2 > options::row(Id::sample).max) return false;
  uint64_t interval = uint64_t{1} << log2;
  if (sampling_is_on()) return set_option_to("sample", interval);
  last_interval.store(interval, std::memory_order_relaxed);
  return true;
}

}  // namespace seemalloc::compat
