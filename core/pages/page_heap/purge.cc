#include "core/pages/page_heap/purge.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/counters.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/clock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/collapse.h"
#include "core/pages/page_heap/sweep.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

using options::Purge;

// Minimum interval between ticks that do something.
constexpr uint64_t kWatch_ns = 50 * kMillisecond_ns;
// The helper thread may be this late before the program's threads tick.
constexpr uint64_t kLate_ns = 100 * kMillisecond_ns;
// A process that works keeps its free memory if it has less than this.
constexpr size_t kFloor_bytes = 512 * KiB;
// Free memory may be this much, or half of the memory in use, or as much as was in use a short
// while ago.
constexpr size_t kLeastCap_bytes = 64 * MiB;

std::atomic<uint64_t> next_watch_ns{0}, period_end_ns{0};
std::atomic<uint64_t> helper_ticks_by_ns{0};
std::atomic<unsigned> periods{0};
// State at the end of the last period or window. A window is two periods.
std::atomic<bool> small_and_busy{false};
std::atomic<bool> anything_due{false};  // a period has ended since everything due was purged
std::atomic<size_t> takes_before{0}, peak_before{0};
std::atomic<uint64_t> purged_before{0}, refaulted_before{0}, cpu_before_ns{0};
std::atomic<uint64_t> total_purged{0}, total_postponed{0};
// The kernel refuses to purge locked memory (mlock). It is tried again after one second, then two,
// up to a minute.
constexpr uint64_t kLongestRefusalWait_ns = 60 * kSecond_ns;
std::atomic<uint64_t> refusal_wait_ns{0}, refused_until_ns{0};

void add(std::atomic<uint64_t>& sum, uint64_t by) { sum.fetch_add(by, std::memory_order_relaxed); }

// True for exactly one thread; the next one then waits for `wait_ns`.
bool is_due(std::atomic<uint64_t>& next_ns, uint64_t now, uint64_t wait_ns) {
  uint64_t due = next_ns.load(std::memory_order_relaxed);
  // A wait that has become shorter takes effect immediately.
  if (now < due && due - now <= wait_ns) return false;
  return next_ns.compare_exchange_strong(due, now + wait_ns, std::memory_order_relaxed);
}

struct Totals {
  size_t used_bytes = 0, peak_bytes = 0, dirty_bytes = 0, takes = 0;
};

Totals totals(bool new_window) {
  Totals t;
  for (unsigned i = 0; i < shards_in_use(); i++) {
    Shard& shard = shards[i];
    LockGuard guard(shard.lock);
    DCHECK(shard.used_pages <= shard.peak_pages);
    t.used_bytes += shard.used_pages * kPageBytes;
    t.peak_bytes += shard.peak_pages * kPageBytes;
    t.dirty_bytes += shard.dirty_pages * kPageBytes;
    t.takes += shard.takes;
    if (new_window) shard.peak_pages = shard.used_pages;
  }
  HugeTotals huge = huge_totals(new_window);
  t.used_bytes += huge.used_bytes;
  t.peak_bytes += huge.peak_bytes;
  t.dirty_bytes += huge.cached_bytes;
  return t;
}

// ---- periods and windows ----

// Pages that stayed free through the last period become old; old pages become due.
bool age_some_locked(Shard& shard, WalkPosition* position) {
  DCHECK(shard.lock.is_held());
  for (unsigned looks = 0; looks < kLooksPerLock; looks++) {
    Region* region = shard.dirty_behind(position->seen);
    if (region == nullptr) return false;
    DCHECK(region->on_dirty_list && !region->resting);
    region->due |= region->old;
    region->old = region->young;
    region->young = PageBits();
    position->seen = region;
  }
  return true;
}

void age(Shard& shard) {
  WalkPosition position;
  {
    LockGuard guard(shard.lock);
    shard.begin_walk(&position);
  }
  for (bool more = true; more;) {
    LockGuard guard(shard.lock);
    more = age_some_locked(shard, &position);
    if (!more) shard.end_walk(&position);
  }
}

void end_window(const Totals& t, uint64_t now) {
  peak_before.store(t.peak_bytes, std::memory_order_relaxed);
  uint64_t purged = total_purged.load(std::memory_order_relaxed),
           refaulted = refaults().delayed_bytes;
  // A child forked by a signal handler at this point restarts both sums.
  uint64_t purged_here = minus(purged, purged_before.exchange(purged, std::memory_order_relaxed));
  uint64_t refaulted_here =
      minus(refaulted, refaulted_before.exchange(refaulted, std::memory_order_relaxed));
  uint64_t cpu_ns = os::process_cpu_ns(),
           cpu_here_ns = minus(cpu_ns, cpu_before_ns.exchange(cpu_ns, std::memory_order_relaxed));
  tune_purge_delay(purged_here, refaulted_here, cpu_here_ns);
  // If no further tick comes, all memory purged in the new window is purged within its first delay.
  // Two delays later its reuse no longer counts.
  begin_refault_window(now + 3 * purge_delay_ns());
}

void end_period(uint64_t now) {
  bool new_window = periods.fetch_add(1, std::memory_order_relaxed) % 2 == 1;
  Totals t = totals(new_window);
  bool busy = takes_before.exchange(t.takes, std::memory_order_relaxed) != t.takes;
  small_and_busy.store(busy && t.dirty_bytes < kFloor_bytes, std::memory_order_relaxed);
  if (new_window) end_window(t, now);
  for (unsigned i = 0; i < shards_in_use(); i++) {
    if (purge_mode() != Purge::kBalanced) wake_resting(shards[i]);
    age(shards[i]);
  }
  anything_due.store(true, std::memory_order_relaxed);
}

// ---- purging ----

void note_outcome(bool anything_went) {
  uint64_t wait = anything_went ? 0 : refusal_wait_ns.load(std::memory_order_relaxed) * 2;
  if (!anything_went && wait == 0) wait = kSecond_ns;
  if (wait > kLongestRefusalWait_ns) wait = kLongestRefusalWait_ns;
  refusal_wait_ns.store(wait, std::memory_order_relaxed);
  if (wait != 0)
    refused_until_ns.store(os::coarse_monotonic_ns() + wait, std::memory_order_relaxed);
}

void sweep_counted(Sweeping* s) {
  size_t before = s->given_bytes;
  s->refused = false;
  sweep_all(s);
  add(total_purged, s->given_bytes - before);
  if (s->refused || s->given_bytes != before) note_outcome(s->given_bytes != before);
}

void count_huge(size_t bytes) {
  add(total_purged, bytes);
  note_huge_gone(bytes);
}

bool sweep_due(PurgeBudget* paid_by, unsigned least, Apart apart) {
  Sweeping s{What::kDue, least, paid_by};
  s.apart = apart;
  sweep_counted(&s);
  return !s.postponed;
}

// Purges memory that has been free for longer than the delay. While the process works, large ranges
// go first and huge pages last; huge pages that are still dense stay, unless the mode is eager.
// Returns false when the budget is spent.
bool purge_due(PurgeBudget* paid_by) {
  if (!anything_due.exchange(false, std::memory_order_relaxed)) return true;
  bool all_gone = purge_budget.idle() || (sweep_due(paid_by, kWorthACall_pages, Apart::kNone) &&
                                          sweep_due(paid_by, 1, Apart::kNone));
  all_gone = all_gone && sweep_due(paid_by, 1, paid_by != nullptr ? Apart::kSparse : Apart::kAny);
  if (!all_gone) anything_due.store(true, std::memory_order_relaxed);
  return all_gone;
}

bool purge_due_huge(PurgeBudget* paid_by, uint64_t cutoff_ns) {
  constexpr unsigned kAtATime = 4;
  for (;;) {
    if (paid_by != nullptr && !paid_by->may_spend()) return false;
    uint64_t begin = os::thread_cpu_ns();
    size_t bytes = purge_huge(cutoff_ns, os::Reason::kDecay, kAtATime);
    if (bytes == 0) return true;
    if (paid_by != nullptr) paid_by->spent(os::thread_cpu_ns() - begin);
    count_huge(bytes);
  }
}

// Purges about this many bytes, the memory that was freed first before the rest, and parts of huge
// pages last.
void purge_about(size_t bytes) {
  Sweeping s;
  s.pages_left = bytes / kPageBytes;
  s.apart = Apart::kNone;
  sweep_counted(&s);
  s.what = What::kOld;
  sweep_counted(&s);
  size_t huge =
      s.pages_left != 0 ? purge_huge_oldest(s.pages_left * kPageBytes, os::Reason::kDecay) : 0;
  count_huge(huge);
  s.pages_left -= huge / kPageBytes < s.pages_left ? huge / kPageBytes : s.pages_left;
  for (Apart apart : {Apart::kNone, Apart::kAny}) {
    s.apart = apart;
    s.what = What::kDirty;
    sweep_counted(&s);
  }
}

// The limit on free memory that the user has set.
size_t chosen_cap(size_t used_bytes) {
  uint64_t ratio = options::get(options::Id::free_ratio);
  if (ratio == 0) return SIZE_MAX;
  return used_bytes / ratio > kRegionBytes ? used_bytes / ratio : kRegionBytes;
}

// Keeps the sum of free memory and memory in use below its recent peak, or below one and a half
// times the memory in use.
void keep_below_cap() {
  Totals t = totals(false);
  size_t peak = peak_before.load(std::memory_order_relaxed);
  if (t.peak_bytes > peak) peak = t.peak_bytes;
  size_t cap = t.used_bytes / 2 > kLeastCap_bytes ? t.used_bytes / 2 : kLeastCap_bytes;
  if (peak > t.used_bytes + cap) cap = peak - t.used_bytes;
  if (size_t chosen = chosen_cap(t.used_bytes); chosen < cap) cap = chosen;
  if (t.dirty_bytes > cap) purge_about(t.dirty_bytes - cap);
}

// Returns false when the budget is spent, or when the kernel has refused recently.
bool give_back_what_is_due(Purge mode, uint64_t now, uint64_t delay) {
  if (is_due(period_end_ns, now, delay / 2)) end_period(now);
  if (now < refused_until_ns.load(std::memory_order_relaxed)) return false;
  keep_below_cap();
  bool eager = mode == Purge::kEager;
  if (!eager && small_and_busy.load(std::memory_order_relaxed)) return true;
  PurgeBudget* paid_by = eager ? nullptr : &purge_budget;
  bool all_gone = purge_due(paid_by) && purge_due_huge(paid_by, minus(now, delay));
  if (!all_gone) add(total_postponed, 1);
  return all_gone;
}

// The rest of the budget is spent on moves onto huge pages.
void watch(Purge mode, bool by_helper, uint64_t now, uint64_t delay) {
  purge_budget.tick(now, os::process_cpu_ns());
  if (give_back_what_is_due(mode, now, delay) && by_helper) collapse_dense_regions(now);
}

}  // namespace

void tick(bool by_helper) {
  Purge mode = purge_mode();
  if (mode == Purge::kNever) return;
  if (mode == Purge::kEager) add(total_purged, sweep_ripe());
  uint64_t now = os::coarse_monotonic_ns();
  if (!by_helper && now < helper_ticks_by_ns.load(std::memory_order_relaxed)) return;
  uint64_t delay = purge_delay_ns();
  if (is_due(next_watch_ns, now, delay / 2 < kWatch_ns ? delay / 2 : kWatch_ns))
    watch(mode, by_helper, now, delay);
}

uint64_t next_tick_in_ns() {
  if (purge_mode() == Purge::kNever || !anything_dirty()) return UINT64_MAX;
  uint64_t half_delay = purge_delay_ns() / 2;
  uint64_t wait_ns = half_delay;
  if (totals(false).dirty_bytes > kLeastCap_bytes) wait_ns = 4 * kWatch_ns;
  if (anything_due.load(std::memory_order_relaxed)) wait_ns = kWatch_ns;
  return wait_ns < half_delay ? wait_ns : half_delay;
}

void helper_ticks_in(uint64_t ns) {
  uint64_t half_delay = purge_delay_ns() / 2;
  bool often_enough = half_delay >= kWatch_ns;
  // With nothing dirty it may sleep for longer than a period. The windows of refaults must continue
  // meanwhile.
  uint64_t by_ns =
      often_enough ? os::coarse_monotonic_ns() + (ns < half_delay ? ns : half_delay) + kLate_ns : 0;
  helper_ticks_by_ns.store(by_ns, std::memory_order_relaxed);
}

size_t purge_all(os::Reason reason) {
  for (unsigned i = 0; i < shards_in_use(); i++) wake_resting(shards[i]);
  Sweeping s;
  s.what = What::kEverything;
  s.on_request = true;
  s.reason = reason;
  sweep_all(&s);
  return s.given_bytes + purge_huge(UINT64_MAX, reason);
}

bool anything_dirty() {
  for (unsigned i = 0; i < shards_in_use(); i++) {
    LockGuard guard(shards[i].lock);
    if (shards[i].dirty_pages != 0) return true;
  }
  return anything_cached_huge();
}

PurgeStatistics purge_statistics() {
  return PurgeStatistics{purge_delay_ns(), total_purged.load(std::memory_order_relaxed),
                         total_postponed.load(std::memory_order_relaxed)};
}

void forget_purges_in_child() {
  forget_refaults_in_child();
  set_to_zero(total_purged, total_postponed, purged_before, refaulted_before, cpu_before_ns);
}

}  // namespace seemalloc::pages
