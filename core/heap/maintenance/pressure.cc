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
#include "core/pages/span/backing.h"

namespace seemalloc::heap {

using options::Id;

namespace {

// Limits may be set while a process runs, and it may be moved to another cgroup.
constexpr uint64_t kFindAgain_ns = 30 * kSecond_ns;
// The helper thread reads the files that it keeps open.
constexpr uint64_t kAskAgain_ns = kSecond_ns;
// If no check has been made for this long, there is no helper thread.
constexpr uint64_t kUnwatched_ns = 2 * kSecond_ns;
// A thread of the program waits for this pass, or the other work of the helper thread does.
constexpr uint64_t kLongestHolePass_ns = 50 * kMillisecond_ns;
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
std::atomic<const void*> who_looks{nullptr};
std::atomic<uint64_t> looks_since_ns{0};  // 0: the check has only just begun
std::atomic<bool> look_anew{true};        // the limit must be read again
std::atomic<size_t> group_limit{SIZE_MAX};
std::atomic<uint64_t> last_watch_ns{0}, last_helper_watch_ns{0};
std::atomic<uint64_t> times_short{0}, rounds{0}, round_bytes{0}, round_ns{0}, waits{0}, wait_ns{0};
std::atomic<size_t> seen_limit{0}, seen_usage{0};

bool watching() {
  return options::get(Id::pressure) != 0 && pages::purge_mode() != options::Purge::kNever;
}

// ---- returning memory ----

Outlook outlook(uint64_t now, size_t limit, size_t room) {
  return Outlook{now,
                 limit,
                 room,
                 pages::backing.bytes(),
                 pages::backing.total_bytes(),
                 options::get(Id::heap_soft_limit)};
}

// Returns all memory that can be had without the cooperation of its thread. *o becomes the state
// afterwards.
void give_everything_back(Outlook* o) {
  uint64_t begin = os::monotonic_ns();
  size_t bytes = purge_all(os::Reason::kPressure, kLongestHolePass_ns);
  uint64_t end = os::monotonic_ns();
  *o = outlook(end, o->limit, o->limit != SIZE_MAX ? o->room + bytes : SIZE_MAX);
  watch.rules.gave(*o, end - begin, bytes);
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
  pages::least_limit.store(least, std::memory_order_relaxed);
}

// The helper thread leaves the full search to the program's own threads (core/os/process/cgroup.h).
// But in a process that is idle, only the helper thread can notice that a limit has been set.
void find_limit(uint64_t now, bool by_helper) {
  if (options::get(Id::pressure) == 0) return watch.files.close();
  if (by_helper && now >= watch.ask_again_ns && !look_anew.load(std::memory_order_relaxed)) {
    watch.ask_again_ns = now + kAskAgain_ns;
    if (watch.files.limit_has_changed(watch.group))
      look_anew.store(true, std::memory_order_relaxed);
  }
  bool due = look_anew.exchange(false, std::memory_order_relaxed) ||
             (now >= watch.find_again_ns && !by_helper);
  if (!due) return;
  watch.find_again_ns = now + kFindAgain_ns;
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
      {now, usage->limit, usage->bytes, usage->hits, stalled && watching(), usage->level});
  times_short.store(watch.rules.gauge.times(), std::memory_order_relaxed);
  pages::memory_is_short.store(is_short, std::memory_order_relaxed);
}

size_t room_left(const os::GroupUsage& usage, size_t upcoming_bytes) {
  return usage.limit != SIZE_MAX ? minus(usage.limit, usage.bytes + upcoming_bytes) : SIZE_MAX;
}

bool helper_watches(uint64_t now) {
  return now < last_helper_watch_ns.load(std::memory_order_relaxed) + kUnwatched_ns;
}

// Returning the free memory of a large heap takes seconds. An allocating thread need not wait for
// all of it while there is still space for a while.
uint64_t longest_wait_ns() {
  constexpr uint64_t kLongest_ns = 100 * kMillisecond_ns, kLongestInLittleRoom_ns = kSecond_ns;
  size_t limit = seen_limit.load(std::memory_order_relaxed),
         usage = seen_usage.load(std::memory_order_relaxed);
  bool little = limit != 0 &&
                minus(limit, usage) < kLongestInLittleRoom_ns * PressureRules::kFill_bytes_per_ns;
  return little ? kLongestInLittleRoom_ns : kLongest_ns;
}

void count_wait(uint64_t ns) {
  waits.fetch_add(1, std::memory_order_relaxed);
  wait_ns.fetch_add(ns, std::memory_order_relaxed);
}

// Waits while another thread, mostly the helper thread, returns everything. That takes as long as a
// burst needs to fill the freed space, so a thread that grows the heap waits. It does not wait for
// a check that its own signal handler has interrupted, nor for a thread that has been checking for
// long, however often the heap grows.
void wait_for_who_looks() {
  constexpr uint64_t kPause_ns = 200 * kMicrosecond_ns;
  if (pages::least_limit.load(std::memory_order_relaxed) == SIZE_MAX) return;
  uint64_t begin = 0;
  bool slept = false;
  for (;;) {
    const void* who = who_looks.load(std::memory_order_relaxed);
    if (who == nullptr || who == &thread_cache) break;
    uint64_t since = looks_since_ns.load(std::memory_order_relaxed), now = os::monotonic_ns(),
             longest = longest_wait_ns();
    if (begin == 0) begin = now;
    if (now - begin >= longest || (since != 0 && now - since >= longest)) break;
    slept = true;
    os::pause(kPause_ns);
  }
  if (slept) count_wait(os::monotonic_ns() - begin);
}

bool take_turn() {
  const void* nobody = nullptr;
  if (!who_looks.compare_exchange_strong(nobody, &thread_cache, std::memory_order_acquire,
                                         std::memory_order_relaxed))
    return false;
  looks_since_ns.store(os::monotonic_ns(), std::memory_order_relaxed);
  return true;
}

}  // namespace

PressureTurn::PressureTurn() : mine(take_turn()) {}
PressureTurn::~PressureTurn() {
  if (!mine) return;
  looks_since_ns.store(0, std::memory_order_relaxed);  // the next check begins with this value
  who_looks.store(nullptr, std::memory_order_release);
}

void look_at_pressure(size_t upcoming_bytes) {
  wait_for_who_looks();
  PressureTurn turn;
  if (!turn.mine) return;
  uint64_t now = os::monotonic_ns();
  os::GroupUsage usage;
  read_usage(now, false, false, &usage);
  Outlook o = outlook(now, usage.limit, room_left(usage, upcoming_bytes));
  if (watch.rules.gives_to_grow(o, helper_watches(now))) give_everything_back(&o);
  pages::backing.set_next_look(o.heap_bytes + PressureRules::next_step(o));
}

namespace {

// Memory that was returned, and memory that other processes took, makes the next check due earlier
// than was set.
void bring_next_look_forward(const Outlook& o) {
  size_t at = o.heap_bytes + PressureRules::next_step(o);
  bool soft_first = o.soft_limit != 0 && o.soft_limit < pages::Backing::kFirstLook_bytes;
  pages::backing.lower_next_look(
      at < pages::Backing::kFirstLook_bytes && !soft_first ? pages::Backing::kFirstLook_bytes : at);
}

uint64_t watch_once(bool stalled, bool by_helper) {
  PressureTurn turn;
  if (!turn.mine) return PressureRules::kRetry_ns;  // the other thread's check is soon done
  uint64_t now = os::monotonic_ns();
  last_watch_ns.store(now, std::memory_order_relaxed);
  if (by_helper) last_helper_watch_ns.store(now, std::memory_order_relaxed);
  os::GroupUsage usage;
  read_usage(now, stalled, by_helper, &usage);
  Outlook o = outlook(now, usage.limit, room_left(usage, 0));
  if (watch.rules.gives_by_watch(o)) give_everything_back(&o);
  bring_next_look_forward(o);
  return watch.rules.next_wait_ns(o, pages::anything_dirty());
}

}  // namespace

uint64_t watch_pressure(bool stalled) { return watch_once(stalled, true); }

void watch_without_helper() {
  uint64_t before = last_watch_ns.load(std::memory_order_relaxed);
  if (pages::heap_is_tiny() || os::coarse_monotonic_ns() < before + kUnwatched_ns) return;
  watch_once(false, false);
}

void pressure_options_read() {
  publish_least_limit();
  size_t soft = options::get(Id::heap_soft_limit);
  if (soft != 0 && soft < pages::Backing::kFirstLook_bytes) pages::backing.set_next_look(soft);
}

void pressure_options_changed() {
  look_anew.store(true, std::memory_order_relaxed);
  publish_least_limit();
  pages::backing.set_next_look(0);
}

void forget_pressure_in_child() {
  set_to_zero(rounds, round_bytes, round_ns, waits, wait_ns);
  // If a signal handler that has interrupted the check called fork, this thread continues the
  // check.
  if (who_looks.load(std::memory_order_relaxed) != &thread_cache) {
    who_looks.store(nullptr, std::memory_order_relaxed);
    looks_since_ns.store(0, std::memory_order_relaxed);
  }
  look_anew.store(true, std::memory_order_relaxed);
  watch.files.close();
  last_watch_ns.store(0, std::memory_order_relaxed);
  last_helper_watch_ns.store(0, std::memory_order_relaxed);
}

GroupFile memory_group_file(const char* name, char* path) {
  PressureTurn turn;
  if (!turn.mine) return GroupFile::kAskAgain;
  return watch.group.file_path(name, path) != nullptr ? GroupFile::kFound : GroupFile::kNone;
}

PressureStatistics pressure_statistics() {
  PressureStatistics s{};
  s.times = times_short.load(std::memory_order_relaxed);
  s.now = pages::memory_is_short.load(std::memory_order_relaxed);
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
