#include "core/pages/policy/purge_policy.h"

#include "core/pages/policy/purge_delay.h"

namespace seemalloc::pages {

using options::Purge;

constinit PurgeBudget purge_budget;

namespace {
// In eager mode: the delay of memory that is too small to be purged immediately.
constexpr uint64_t kEagerDelayNs = 100 * kMillisecondNs;
constinit PurgeDelay tuned_delay;
}  // namespace

Purge purge_mode() {
  Purge mode = static_cast<Purge>(options::get(options::Id::purge));
  return mode == Purge::kBalanced && options::get(options::Id::purge_delay) == 0 ? Purge::kEager
                                                                                 : mode;
}

uint64_t purge_delay_ns() {
  if (purge_mode() == Purge::kEager) return kEagerDelayNs;
  if (!options::is_explicitly_set(options::Id::purge_delay)) return tuned_delay.ns();
  return options::get(options::Id::purge_delay) * kMillisecondNs;
}

void tune_purge_delay(size_t purged_bytes, size_t refaulted_bytes, uint64_t cpu_ns) {
  bool tuned =
      purge_mode() == Purge::kBalanced && !options::is_explicitly_set(options::Id::purge_delay);
  if (tuned) tuned_delay.window_ended(purged_bytes, refaulted_bytes, cpu_ns);
}

}  // namespace seemalloc::pages
