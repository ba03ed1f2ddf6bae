#include "core/heap/pressure.h"

#include <atomic>

#include "core/heap/large_cache.h"
#include "core/heap/pressure_gauge.h"
#include "core/heap/thread_heap.h"
#include "core/os/cgroup.h"
#include "core/os/os.h"
#include "core/pages/page_heap.h"
#include "core/pages/purge.h"

namespace seemalloc::heap {

using options::Id;

namespace {

constexpr size_t kLeastStep_bytes = 1 * MiB;
constexpr size_t kLargestStep_bytes = 256 * MiB;
constexpr size_t kMostScarce_bytes = 512 * MiB;
// Limits may be set while a process runs, and it may be moved to another cgroup.
constexpr uint64_t kFindAgain_ns = 30 * kSecond_ns;
// Nobody has watched for so long: there is no helper.
constexpr uint64_t kUnwatched_ns = 2 * kSecond_ns;
// The helper looks before memory can have been filled that fast.
constexpr uint64_t kFill_bytes_per_ns = 2;
constexpr uint64_t kShortestWait_ns = 5 * kMillisecond_ns;
constexpr uint64_t kShortestIdleWait_ns = 50 * kMillisecond_ns;  // nothing is free yet
constexpr uint64_t kRetry_ns = 20 * kMillisecond_ns;

// Whoever looks has all of this.
struct Watch {
  os::MemoryGroup group;
  os::UsageFiles files;  // the helper's
  PressureGauge gauge;
  PurgePace pace;
  uint64_t find_again_ns = 0;
};
constinit Watch watch;
std::atomic<bool> somebody_looks{false};

class Turn {
 public:
  Turn() : mine(!somebody_looks.exchange(true, std::memory_order_acquire)) {}
  ~Turn() {
    if (mine) somebody_looks.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  const bool mine;
};

std::atomic<bool> look_anew{true};  // for the limit
std::atomic<size_t> group_limit{SIZE_MAX};
std::atomic<uint64_t> last_watch_ns{0};
std::atomic<uint64_t> times_short{0}, rounds{0}, round_bytes{0}, round_ns{0};
std::atomic<size_t> seen_limit{0}, seen_usage{0};

size_t minus(size_t a, size_t b) { return a > b ? a - b : 0; }

bool watching() {
  bool never = options::get(Id::purge) == static_cast<uint64_t>(options::Purge::kNever);
  return options::get(Id::pressure) != 0 && !never;
}

// ---- giving back ----

bool take_if_empty(ClassState& cs, Span* span) {
  if (span == nullptr || span->live_acquire() != 0) return false;
  cs.available.remove(span);
  if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
  retire(span);
  return true;
}

// The empty spans that threads keep, one per class, for their next refill (remote.h, rule 6: nobody else can reach them).
void take_empty_spans() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) != HeapState::kActive || !heap->slow_lock.try_lock()) continue;
    for (ClassState& cs : heap->body->classes) {
      if (!take_if_empty(cs, cs.available.front())) take_if_empty(cs, cs.available.back());
    }
    heap->slow_lock.unlock();
  }
}

// Everything that can be had without its thread's help. Returns bytes given back.
size_t give_everything_back() {
  uint64_t begin = os::monotonic_ns();
  take_empty_spans();
  size_t bytes = purge_all(os::Reason::kPressure);
  uint64_t end = os::monotonic_ns();
  watch.pace.done(end, end - begin, bytes);
  rounds.fetch_add(1, std::memory_order_relaxed);
  round_bytes.fetch_add(bytes, std::memory_order_relaxed);
  round_ns.fetch_add(end - begin, std::memory_order_relaxed);
  return bytes;
}

// ---- looking ----

void publish_least_limit() {
  size_t least = options::get(Id::pressure) != 0 ? group_limit.load(std::memory_order_relaxed) : SIZE_MAX;
  for (Id id : {Id::heap_limit, Id::heap_soft_limit}) {
    size_t limit = options::get(id);
    if (limit != 0 && limit < least) least = limit;
  }
  pages::least_limit.store(least, std::memory_order_relaxed);
}

// The helper leaves looking again to the program's own threads (core/os/cgroup.h).
void find_limit(uint64_t now, bool by_helper) {
  if (options::get(Id::pressure) == 0) return watch.files.close();
  bool due = look_anew.exchange(false, std::memory_order_relaxed) || (now >= watch.find_again_ns && !by_helper);
  if (!due) return;
  watch.find_again_ns = now + kFindAgain_ns;
  os::MemoryGroup found;
  found.find();
  if (!found.same_files(watch.group)) watch.files.close();
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

// Reads the usage and moves the gauge. False when there is no limit, or it is nobody's business.
bool read_usage(uint64_t now, bool stalled, bool by_helper, os::GroupUsage* usage) {
  find_limit(now, by_helper);
  publish_least_limit();
  bool limited = read_group(by_helper, usage);
  seen_limit.store(limited ? usage->limit : 0, std::memory_order_relaxed);
  seen_usage.store(limited ? usage->bytes : 0, std::memory_order_relaxed);
  bool is_short = watch.gauge.update({now, limited ? usage->limit : SIZE_MAX, usage->bytes, usage->hits, stalled && watching()});
  times_short.store(watch.gauge.times(), std::memory_order_relaxed);
  pages::memory_is_short.store(is_short, std::memory_order_relaxed);
  return limited;
}

bool above_soft_limit() {
  size_t soft = options::get(Id::heap_soft_limit);
  return soft != 0 && pages::backing.total_bytes() > soft;
}

// Less room than this, and what is kept goes whatever it costs.
size_t scarce_room(size_t limit) { return limit / 16 < kMostScarce_bytes ? limit / 16 : kMostScarce_bytes; }

// With so much room left below the cgroup's limit (SIZE_MAX: there is none).
bool has_to_give(uint64_t now, const os::GroupUsage& usage, size_t room) {
  size_t scarce = room == SIZE_MAX ? 0 : scarce_room(usage.limit);
  if (room < scarce && (watch.pace.due_when_scarce(now) || room < scarce / 4)) return true;
  return watch.gauge.memory_is_short() && watch.pace.due(now);
}

// How much the heap may grow until the next look, with so much room left below the cgroup's limit.
size_t next_step(bool limited, size_t room) {
  size_t step = limited ? room / 4 : 2 * pages::backing.bytes();
  if (step > kLargestStep_bytes && limited) step = kLargestStep_bytes;
  if (step < kLeastStep_bytes) step = kLeastStep_bytes;
  size_t soft = options::get(Id::heap_soft_limit);
  if (soft == 0) return step;
  size_t left = minus(soft, pages::backing.total_bytes());
  if (left == 0) left = soft / 64 < kLeastStep_bytes ? kLeastStep_bytes : soft / 64;
  return left < step ? left : step;
}

}  // namespace

void look_at_pressure(size_t upcoming_bytes) {
  Turn turn;
  if (!turn.mine) return;
  uint64_t now = os::monotonic_ns();
  os::GroupUsage usage;
  bool limited = read_usage(now, false, false, &usage);
  size_t room = limited ? minus(usage.limit, usage.bytes + upcoming_bytes) : SIZE_MAX;
  if (above_soft_limit() || has_to_give(now, usage, room)) {
    size_t given = give_everything_back();
    if (limited) room += given;
  }
  pages::backing.set_next_look(pages::backing.bytes() + next_step(limited, room));
}

namespace {

uint64_t next_wait_ns(uint64_t now, bool limited, const os::GroupUsage& usage, size_t room) {
  bool dirty = pages::anything_dirty();
  uint64_t paced = UINT64_MAX;
  if (dirty && watch.gauge.memory_is_short()) {
    paced = watch.pace.next_ns() > now + kRetry_ns ? watch.pace.next_ns() - now : kRetry_ns;
  }
  // A heap of some size may soon be larger, and free; nobody tells us.
  if (!limited || (!dirty && pages::backing.bytes() < usage.limit / 16)) return paced;
  uint64_t filled = minus(room, scarce_room(usage.limit)) / kFill_bytes_per_ns;
  uint64_t shortest = dirty ? kShortestWait_ns : kShortestIdleWait_ns;
  if (filled < shortest) filled = shortest;
  return filled < paced ? filled : paced;
}

uint64_t watch_once(bool stalled, bool by_helper) {
  Turn turn;
  if (!turn.mine) return kRetry_ns;
  uint64_t now = os::monotonic_ns();
  last_watch_ns.store(now, std::memory_order_relaxed);
  os::GroupUsage usage;
  bool limited = read_usage(now, stalled, by_helper, &usage);
  size_t room = limited ? minus(usage.limit, usage.bytes) : SIZE_MAX;
  if (has_to_give(now, usage, room) || (above_soft_limit() && watch.pace.due(now))) room += give_everything_back();
  return next_wait_ns(now, limited, usage, room);
}

}  // namespace

uint64_t watch_pressure(bool stalled) { return watch_once(stalled, true); }

void watch_without_helper() {
  uint64_t before = last_watch_ns.load(std::memory_order_relaxed);
  if (pages::region_count() < 2 || os::coarse_monotonic_ns() < before + kUnwatched_ns) return;
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
  somebody_looks.store(false, std::memory_order_relaxed);
  look_anew.store(true, std::memory_order_relaxed);
  watch.files.close();
  last_watch_ns.store(0, std::memory_order_relaxed);
}

bool memory_group_file(const char* name, char* path) {
  Turn turn;
  return turn.mine && watch.group.file_path(name, path) != nullptr;
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
  return s;
}

}  // namespace seemalloc::heap
