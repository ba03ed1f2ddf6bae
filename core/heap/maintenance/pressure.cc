#include "core/heap/maintenance/pressure.h"

#include <atomic>

#include "core/base/counters.h"
#include "core/base/options.h"
#include "core/heap/maintenance/pressure_rules.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/thread/thread_cache.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/cgroup.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/memory_account.h"

namespace seemalloc::heap {

using options::Id;

namespace {

// Limits may be set while a process runs, and it may be moved to another cgroup.
constexpr uint64_t kFindLimitPeriodNs = 30 * kSecondNs;
// The helper thread reads the files that it keeps open.
constexpr uint64_t kCheckLimitPeriodNs = kSecondNs;
// If no check has been made for this long, there is no helper thread.
constexpr uint64_t kUnwatchedNs = 2 * kSecondNs;
// Time limit of a pass over holes: meanwhile a thread of the program waits, or the helper thread's
// other work.
constexpr uint64_t kMaxHolePassNs = 50 * kMillisecondNs;
static_assert(PressureGauge::kLevels >= os::MemoryGroup::kMaxLevels);

// Belongs to the checking thread.
struct Watch {
  os::MemoryGroup group;
  os::UsageFiles files;  // used by the helper thread
  PressureRules rules;
  uint64_t find_again_ns = 0;
  uint64_t ask_again_ns = 0;  // when to check whether the limit has changed
};
constinit Watch watch;
// The checking thread's cache; null: no thread checks.
std::atomic<const void*> checking_thread{nullptr};
std::atomic<uint64_t> check_began_ns{0};  // 0: none runs, or it has just begun
std::atomic<bool> limit_is_stale{true};   // the limit must be read again
std::atomic<size_t> group_limit{SIZE_MAX};
std::atomic<uint64_t> last_watch_ns{0}, last_helper_watch_ns{0};
std::atomic<uint64_t> times_short{0}, rounds{0}, round_bytes{0}, round_ns{0}, waits{0}, wait_ns{0};
std::atomic<size_t> seen_limit{0}, seen_usage{0};

bool watching() {
  return options::get(Id::pressure) != 0 && pages::purge_mode() != options::Purge::kNever;
}

// ---- returning memory ----

PressureState pressure_state(uint64_t now, size_t limit, size_t room) {
  return PressureState{now,
                       limit,
                       room,
                       pages::memory_account.bytes(),
                       pages::memory_account.total_bytes(),
                       options::get(Id::heap_soft_limit)};
}

// Returns all memory that can be had without the cooperation of its thread. *o becomes the state
// afterwards.
void purge_everything(PressureState* o) {
  uint64_t begin = os::monotonic_ns();
  size_t bytes = purge_all(os::Reason::kPressure, kMaxHolePassNs);
  uint64_t end = os::monotonic_ns();
  *o = pressure_state(end, o->limit, o->limit != SIZE_MAX ? o->room + bytes : SIZE_MAX);
  watch.rules.round_done(*o, end - begin, bytes);
  rounds.fetch_add(1, std::memory_order_relaxed);
  round_bytes.fetch_add(bytes, std::memory_order_relaxed);
  round_ns.fetch_add(end - begin, std::memory_order_relaxed);
}

// ---- checking ----

void publish_least_limit() {
  size_t least =
      options::get(Id::pressure) != 0 ? group_limit.load(std::memory_order_relaxed) : SIZE_MAX;
  for (Id id : {Id::heap_limit, Id::heap_soft_limit}) {
    size_t limit = options::get(id);
    if (limit != 0 && limit < least) least = limit;
  }
  pages::smallest_limit.store(least, std::memory_order_relaxed);
}

// The helper thread leaves the full search to the program's own threads (core/os/process/cgroup.h).
// But in a process that is idle, only the helper thread can notice that a limit has been set.
void find_limit(uint64_t now, bool by_helper) {
  if (options::get(Id::pressure) == 0) return watch.files.close();
  if (by_helper && now >= watch.ask_again_ns && !limit_is_stale.load(std::memory_order_relaxed)) {
    watch.ask_again_ns = now + kCheckLimitPeriodNs;
    if (watch.files.limit_has_changed(watch.group))
      limit_is_stale.store(true, std::memory_order_relaxed);
  }
  bool due = limit_is_stale.exchange(false, std::memory_order_relaxed) ||
             (now >= watch.find_again_ns && !by_helper);
  if (!due) return;
  watch.find_again_ns = now + kFindLimitPeriodNs;
  os::MemoryGroup found;
  found.find();
  if (!found.same_files(watch.group)) {
    watch.files.close();
    watch.rules.gauge.forget_hits();
  }
  watch.group = found;
  group_limit.store(found.limit(), std::memory_order_relaxed);
}

bool read_group(bool by_helper, os::GroupUsage* usage) {
  if (!watching() || watch.group.limit() == SIZE_MAX) return false;
  if (by_helper) {
    watch.files.keep_open(watch.group);
    if (watch.files.read(watch.group, usage)) return true;
  }
  return watch.group.read(usage);
}

// Reads the usage and updates the gauge. Without a limit, or if watching is off, the usage has no
// limit.
void read_usage(uint64_t now, bool stalled, bool by_helper, os::GroupUsage* usage) {
  find_limit(now, by_helper);
  publish_least_limit();
  bool limited = read_group(by_helper, usage);
  seen_limit.store(limited ? usage->limit : 0, std::memory_order_relaxed);
  seen_usage.store(limited ? usage->bytes : 0, std::memory_order_relaxed);
  if (!limited) *usage = os::GroupUsage{};
  bool is_short = watch.rules.gauge.update(
      {now, usage->limit, usage->bytes, usage->limit_events, stalled && watching(), usage->level});
  times_short.store(watch.rules.gauge.times(), std::memory_order_relaxed);
  pages::under_memory_pressure.store(is_short, std::memory_order_relaxed);
}

size_t room_left(const os::GroupUsage& usage, size_t upcoming_bytes) {
  return usage.limit != SIZE_MAX ? saturating_subtract(usage.limit, usage.bytes + upcoming_bytes)
                                 : SIZE_MAX;
}

bool helper_watches(uint64_t now) {
  return now < last_helper_watch_ns.load(std::memory_order_relaxed) + kUnwatchedNs;
}

// Returning the free memory of a large heap takes seconds. An allocating thread need not wait for
// all of it while there is still space for a while.
uint64_t longest_wait_ns() {
  constexpr uint64_t kMaxNs = 100 * kMillisecondNs, kMaxInLittleRoomNs = kSecondNs;
  size_t limit = seen_limit.load(std::memory_order_relaxed),
         usage = seen_usage.load(std::memory_order_relaxed);
  bool little = limit != 0 && saturating_subtract(limit, usage) <
                                  kMaxInLittleRoomNs * PressureRules::kFillBytesPerNs;
  return little ? kMaxInLittleRoomNs : kMaxNs;
}

void count_wait(uint64_t ns) {
  waits.fetch_add(1, std::memory_order_relaxed);
  wait_ns.fetch_add(ns, std::memory_order_relaxed);
}

// Waits while another thread, mostly the helper thread, returns everything. That takes as long as a
// burst needs to fill the freed space, so a thread that grows the heap waits. It does not wait for
// a check that its own signal handler has interrupted, nor for a thread that has been checking for
// long, however often the heap grows.
void wait_for_running_check() {
  constexpr uint64_t kPauseNs = 200 * kMicrosecondNs;
  if (pages::smallest_limit.load(std::memory_order_relaxed) == SIZE_MAX) return;
  uint64_t begin = 0;
  bool slept = false;
  for (;;) {
    const void* who = checking_thread.load(std::memory_order_relaxed);
    if (who == nullptr || who == &thread_cache) break;
    uint64_t since = check_began_ns.load(std::memory_order_relaxed), now = os::monotonic_ns(),
             longest = longest_wait_ns();
    if (begin == 0) begin = now;
    if (now - begin >= longest || (since != 0 && now - since >= longest)) break;
    slept = true;
    os::pause(kPauseNs);
  }
  if (slept) count_wait(os::monotonic_ns() - begin);
}

bool take_turn() {
  const void* none = nullptr;
  if (!checking_thread.compare_exchange_strong(none, &thread_cache, std::memory_order_acquire,
                                               std::memory_order_relaxed))
    return false;
  check_began_ns.store(os::monotonic_ns(), std::memory_order_relaxed);
  return true;
}

}  // namespace

PressureCheckLock::PressureCheckLock() : mine(take_turn()) {}
PressureCheckLock::~PressureCheckLock() {
  if (!mine) return;
  // Reset first: waiters would take the old time for the start of the next check.
  check_began_ns.store(0, std::memory_order_relaxed);
  checking_thread.store(nullptr, std::memory_order_release);
}

void check_memory_pressure(size_t upcoming_bytes) {
  wait_for_running_check();
  PressureCheckLock turn;
  if (!turn.mine) return;
  uint64_t now = os::monotonic_ns();
  os::GroupUsage usage;
  read_usage(now, false, false, &usage);
  PressureState o = pressure_state(now, usage.limit, room_left(usage, upcoming_bytes));
  if (watch.rules.must_purge_to_grow(o, helper_watches(now))) purge_everything(&o);
  pages::memory_account.set_next_pressure_check(o.heap_bytes + PressureRules::next_step(o));
}

namespace {

// After a purge, or when other processes have taken memory, the next check must come at a smaller
// heap than was set.
void lower_next_check(const PressureState& o) {
  size_t at = o.heap_bytes + PressureRules::next_step(o);
  bool soft_first =
      o.soft_limit != 0 && o.soft_limit < pages::MemoryAccount::kFirstPressureCheckBytes;
  pages::memory_account.lower_next_pressure_check(
      at < pages::MemoryAccount::kFirstPressureCheckBytes && !soft_first
          ? pages::MemoryAccount::kFirstPressureCheckBytes
          : at);
}

uint64_t watch_once(bool stalled, bool by_helper) {
  PressureCheckLock turn;
  if (!turn.mine) return PressureRules::kRetryNs;  // the other thread's check is soon done
  uint64_t now = os::monotonic_ns();
  last_watch_ns.store(now, std::memory_order_relaxed);
  if (by_helper) last_helper_watch_ns.store(now, std::memory_order_relaxed);
  os::GroupUsage usage;
  read_usage(now, stalled, by_helper, &usage);
  PressureState o = pressure_state(now, usage.limit, room_left(usage, 0));
  if (watch.rules.must_purge_when_idle(o)) purge_everything(&o);
  lower_next_check(o);
  return watch.rules.next_wait_ns(o, pages::has_dirty_memory());
}

}  // namespace

uint64_t check_pressure_by_helper(bool stalled) { return watch_once(stalled, true); }

void check_pressure_by_tick() {
  uint64_t before = last_watch_ns.load(std::memory_order_relaxed);
  if (pages::heap_is_tiny() || os::coarse_monotonic_ns() < before + kUnwatchedNs) return;
  watch_once(false, false);
}

void pressure_options_read() {
  publish_least_limit();
  size_t soft = options::get(Id::heap_soft_limit);
  if (soft != 0 && soft < pages::MemoryAccount::kFirstPressureCheckBytes)
    pages::memory_account.set_next_pressure_check(soft);
}

void pressure_options_changed() {
  limit_is_stale.store(true, std::memory_order_relaxed);
  publish_least_limit();
  pages::memory_account.set_next_pressure_check(0);
}

void reset_pressure_in_child() {
  set_to_zero(rounds, round_bytes, round_ns, waits, wait_ns);
  // If a signal handler that has interrupted the check called fork, this thread continues the
  // check.
  if (checking_thread.load(std::memory_order_relaxed) != &thread_cache) {
    checking_thread.store(nullptr, std::memory_order_relaxed);
    check_began_ns.store(0, std::memory_order_relaxed);
  }
  limit_is_stale.store(true, std::memory_order_relaxed);
  watch.files.close();
  last_watch_ns.store(0, std::memory_order_relaxed);
  last_helper_watch_ns.store(0, std::memory_order_relaxed);
}

GroupFile memory_group_file(const char* name, char* path) {
  PressureCheckLock turn;
  if (!turn.mine) return GroupFile::kBusy;
  return watch.group.file_path(name, path) != nullptr ? GroupFile::kFound : GroupFile::kNone;
}

PressureStatistics pressure_statistics() {
  PressureStatistics s{};
  s.times = times_short.load(std::memory_order_relaxed);
  s.now = pages::under_memory_pressure.load(std::memory_order_relaxed);
  s.limit = seen_limit.load(std::memory_order_relaxed);
  s.usage = seen_usage.load(std::memory_order_relaxed);
  s.rounds = rounds.load(std::memory_order_relaxed);
  s.purged_bytes = round_bytes.load(std::memory_order_relaxed);
  s.ns = round_ns.load(std::memory_order_relaxed);
  s.waits = waits.load(std::memory_order_relaxed);
  s.wait_ns = wait_ns.load(std::memory_order_relaxed);
  return s;
}

}  // namespace seemalloc::heap
