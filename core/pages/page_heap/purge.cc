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
constexpr uint64_t kMinTickIntervalNs = 50 * kMillisecondNs;
// The helper thread may be this late before the program's threads tick.
constexpr uint64_t kHelperGraceNs = 100 * kMillisecondNs;
// A process that works keeps its free memory if it has less than this.
constexpr size_t kAlwaysKeptBytes = 512 * KiB;
// Free memory may be this much, or half of the memory in use, or as much as was in use a short
// while ago.
constexpr size_t kMinCapBytes = 64 * MiB;

std::atomic<uint64_t> next_tick_ns{0}, period_end_ns{0};
std::atomic<uint64_t> helper_ticks_by_ns{0};
std::atomic<unsigned> periods{0};
// State at the end of the last period or window. A window is two periods.
std::atomic<bool> small_and_busy{false};
std::atomic<bool> has_due_pages{false};  // a period has ended since everything due was purged
std::atomic<size_t> runs_allocated_before{0}, peak_before{0};
std::atomic<uint64_t> purged_before{0}, refaulted_before{0}, cpu_before_ns{0};
std::atomic<uint64_t> total_purged{0}, total_postponed{0};
// The kernel refuses to purge locked memory (mlock). It is tried again after one second, then two,
// up to a minute.
constexpr uint64_t kMaxRefusalWaitNs = 60 * kSecondNs;
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
  size_t used_bytes = 0, peak_bytes = 0, dirty_bytes = 0, runs_allocated = 0;
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
    t.runs_allocated += shard.runs_allocated;
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
  for (unsigned looks = 0; looks < kChecksPerLock; looks++) {
    Region* region = shard.next_dirty_after(position->last_visited);
    if (region == nullptr) return false;
    DCHECK(region->on_dirty_list && !region->resting);
    region->due |= region->old;
    region->old = region->young;
    region->young = PageBits();
    position->last_visited = region;
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
  uint64_t purged_here =
      saturating_subtract(purged, purged_before.exchange(purged, std::memory_order_relaxed));
  uint64_t refaulted_here = saturating_subtract(
      refaulted, refaulted_before.exchange(refaulted, std::memory_order_relaxed));
  uint64_t cpu_ns = os::process_cpu_ns(),
           cpu_here_ns = saturating_subtract(
               cpu_ns, cpu_before_ns.exchange(cpu_ns, std::memory_order_relaxed));
  tune_purge_delay(purged_here, refaulted_here, cpu_here_ns);
  // If no further tick comes, all memory purged in the new window is purged within its first delay.
  // Two delays later its reuse no longer counts.
  begin_refault_window(now + 3 * purge_delay_ns());
}

void end_period(uint64_t now) {
  bool new_window = periods.fetch_add(1, std::memory_order_relaxed) % 2 == 1;
  Totals t = totals(new_window);
  bool busy = runs_allocated_before.exchange(t.runs_allocated, std::memory_order_relaxed) !=
              t.runs_allocated;
  small_and_busy.store(busy && t.dirty_bytes < kAlwaysKeptBytes, std::memory_order_relaxed);
  if (new_window) end_window(t, now);
  for (unsigned i = 0; i < shards_in_use(); i++) {
    if (purge_mode() != Purge::kBalanced) unhide_resting_regions(shards[i]);
    age(shards[i]);
  }
  has_due_pages.store(true, std::memory_order_relaxed);
}

// ---- purging ----

void note_outcome(bool anything_went) {
  uint64_t wait = anything_went ? 0 : refusal_wait_ns.load(std::memory_order_relaxed) * 2;
  if (!anything_went && wait == 0) wait = kSecondNs;
  if (wait > kMaxRefusalWaitNs) wait = kMaxRefusalWaitNs;
  refusal_wait_ns.store(wait, std::memory_order_relaxed);
  if (wait != 0)
    refused_until_ns.store(os::coarse_monotonic_ns() + wait, std::memory_order_relaxed);
}

void sweep_counted(SweepState* s) {
  size_t before = s->purged_bytes;
  s->refused = false;
  sweep_all(s);
  add(total_purged, s->purged_bytes - before);
  if (s->refused || s->purged_bytes != before) note_outcome(s->purged_bytes != before);
}

void count_purged_huge(size_t bytes) {
  add(total_purged, bytes);
  note_huge_purged(bytes);
}

bool sweep_due(PurgeBudget* paid_by, unsigned min_run_pages, SplitHugePages split_huge_pages) {
  SweepState s{PageSelection::kDue, min_run_pages, paid_by};
  s.split_huge_pages = split_huge_pages;
  sweep_counted(&s);
  return !s.postponed;
}

// Purges memory that has been free for longer than the delay. While the process works, large ranges
// go first and huge pages last; huge pages that are still dense stay, unless the mode is eager.
// Returns false when the budget is spent.
bool purge_due(PurgeBudget* paid_by) {
  if (!has_due_pages.exchange(false, std::memory_order_relaxed)) return true;
  bool all_gone =
      purge_budget.idle() || (sweep_due(paid_by, kMinPurgeCallPages, SplitHugePages::kNone) &&
                              sweep_due(paid_by, 1, SplitHugePages::kNone));
  all_gone =
      all_gone &&
      sweep_due(paid_by, 1, paid_by != nullptr ? SplitHugePages::kSparse : SplitHugePages::kAny);
  if (!all_gone) has_due_pages.store(true, std::memory_order_relaxed);
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
    count_purged_huge(bytes);
  }
}

// Purges about this many bytes, the memory that was freed first before the rest, and parts of huge
// pages last.
void purge_oldest(size_t bytes) {
  SweepState s;
  s.pages_left = bytes / kPageBytes;
  s.split_huge_pages = SplitHugePages::kNone;
  sweep_counted(&s);
  s.selection = PageSelection::kOld;
  sweep_counted(&s);
  size_t huge =
      s.pages_left != 0 ? purge_huge_oldest(s.pages_left * kPageBytes, os::Reason::kDecay) : 0;
  count_purged_huge(huge);
  s.pages_left -= huge / kPageBytes < s.pages_left ? huge / kPageBytes : s.pages_left;
  for (SplitHugePages split_huge_pages : {SplitHugePages::kNone, SplitHugePages::kAny}) {
    s.split_huge_pages = split_huge_pages;
    s.selection = PageSelection::kDirty;
    sweep_counted(&s);
  }
}

// The limit on free memory that the user has set.
size_t user_cap(size_t used_bytes) {
  uint64_t ratio = options::get(options::Id::free_ratio);
  if (ratio == 0) return SIZE_MAX;
  return used_bytes / ratio > kRegionBytes ? used_bytes / ratio : kRegionBytes;
}

// Keeps the sum of free memory and memory in use below its recent peak, or below one and a half
// times the memory in use.
void enforce_cap() {
  Totals t = totals(false);
  size_t peak = peak_before.load(std::memory_order_relaxed);
  if (t.peak_bytes > peak) peak = t.peak_bytes;
  size_t cap = t.used_bytes / 2 > kMinCapBytes ? t.used_bytes / 2 : kMinCapBytes;
  if (peak > t.used_bytes + cap) cap = peak - t.used_bytes;
  if (size_t chosen = user_cap(t.used_bytes); chosen < cap) cap = chosen;
  if (t.dirty_bytes > cap) purge_oldest(t.dirty_bytes - cap);
}

// Returns false when the budget is spent, or when the kernel has refused recently.
bool purge_due_and_excess(Purge mode, uint64_t now, uint64_t delay) {
  if (is_due(period_end_ns, now, delay / 2)) end_period(now);
  if (now < refused_until_ns.load(std::memory_order_relaxed)) return false;
  enforce_cap();
  bool eager = mode == Purge::kEager;
  if (!eager && small_and_busy.load(std::memory_order_relaxed)) return true;
  PurgeBudget* paid_by = eager ? nullptr : &purge_budget;
  bool all_gone = purge_due(paid_by) && purge_due_huge(paid_by, saturating_subtract(now, delay));
  if (!all_gone) add(total_postponed, 1);
  return all_gone;
}

// The rest of the budget is spent on moves onto huge pages.
void run_tick(Purge mode, bool by_helper, uint64_t now, uint64_t delay) {
  purge_budget.tick(now, os::process_cpu_ns());
  if (purge_due_and_excess(mode, now, delay) && by_helper) collapse_dense_regions(now);
}

}  // namespace

void tick(bool by_helper) {
  Purge mode = purge_mode();
  if (mode == Purge::kNever) return;
  if (mode == Purge::kEager) add(total_purged, sweep_immediate());
  uint64_t now = os::coarse_monotonic_ns();
  if (!by_helper && now < helper_ticks_by_ns.load(std::memory_order_relaxed)) return;
  uint64_t delay = purge_delay_ns();
  if (is_due(next_tick_ns, now, delay / 2 < kMinTickIntervalNs ? delay / 2 : kMinTickIntervalNs))
    run_tick(mode, by_helper, now, delay);
}

uint64_t next_tick_in_ns() {
  if (purge_mode() == Purge::kNever || !has_dirty_memory()) return UINT64_MAX;
  uint64_t half_delay = purge_delay_ns() / 2;
  uint64_t wait_ns = half_delay;
  if (totals(false).dirty_bytes > kMinCapBytes) wait_ns = 4 * kMinTickIntervalNs;
  if (has_due_pages.load(std::memory_order_relaxed)) wait_ns = kMinTickIntervalNs;
  return wait_ns < half_delay ? wait_ns : half_delay;
}

void announce_helper_tick(uint64_t ns) {
  uint64_t half_delay = purge_delay_ns() / 2;
  bool often_enough = half_delay >= kMinTickIntervalNs;
  // With nothing dirty it may sleep for longer than a period. The windows of refaults must continue
  // meanwhile.
  uint64_t by_ns = often_enough ? os::coarse_monotonic_ns() + (ns < half_delay ? ns : half_delay) +
                                      kHelperGraceNs
                                : 0;
  helper_ticks_by_ns.store(by_ns, std::memory_order_relaxed);
}

size_t purge_all(os::Reason reason) {
  for (unsigned i = 0; i < shards_in_use(); i++) unhide_resting_regions(shards[i]);
  SweepState s;
  s.selection = PageSelection::kEverything;
  s.on_request = true;
  s.reason = reason;
  sweep_all(&s);
  return s.purged_bytes + purge_huge(UINT64_MAX, reason);
}

bool has_dirty_memory() {
  for (unsigned i = 0; i < shards_in_use(); i++) {
    LockGuard guard(shards[i].lock);
    if (shards[i].dirty_pages != 0) return true;
  }
  return has_cached_huge();
}

PurgeStatistics purge_statistics() {
  return PurgeStatistics{purge_delay_ns(), total_purged.load(std::memory_order_relaxed),
                         total_postponed.load(std::memory_order_relaxed)};
}

void reset_purge_counters_in_child() {
  reset_refaults_in_child();
  set_to_zero(total_purged, total_postponed, purged_before, refaulted_before, cpu_before_ns);
}

}  // namespace seemalloc::pages
