#include "core/compat/control_settings.h"

#include <bit>

#include "core/api/settings/runtime_options.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc::compat {

using options::Id;

namespace {

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
    case options::Purge::kNever: return -1;
    case options::Purge::kEager: return 0;
    case options::Purge::kBalanced: break;
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

double memory_release_rate() {
  double usual = static_cast<double>(options::row(Id::purge_delay).default_value);
  ssize_t delay = decay_ms();
  if (delay < 0) return 0;
  return usual / static_cast<double>(delay > 0 ? delay : 1);
}

void set_release_rate(double rate) {
  if (!(rate > 0)) {
    set_option_to("purge", "never");
    return;
  }
  // The default, theirs and ours: the rate that a program has read before it changed the rate.
  if (rate == 1) {
    set_option_to("purge_delay", "auto");
    set_option_to("purge", "balanced");
    return;
  }
  double delay = static_cast<double>(options::row(Id::purge_delay).default_value) / rate;
  double most = static_cast<double>(options::row(Id::purge_delay).max);
  set_decay_ms(static_cast<ssize_t>(delay < most ? delay : most));
}

bool sampling_is_on() { return options::get(Id::sample) != 0; }

bool enable_sampling(bool on) {
  return on == sampling_is_on() ||
         set_option_to("sample", on ? options::last_sample_interval() : 0);
}

size_t sample_interval_log2() {
  return static_cast<size_t>(std::bit_width(options::last_sample_interval())) - 1;
}

bool set_sample_interval_log2(size_t log2) {
  if (log2 >= 64 || uint64_t{1} << log2 > options::row(Id::sample).max) return false;
  uint64_t interval = uint64_t{1} << log2;
  if (sampling_is_on()) return set_option_to("sample", interval);
  options::remember_sample_interval(interval);
  return true;
}

}  // namespace seemalloc::compat
