#include "core/api/dumps/auto_dump.h"

#include <bit>

#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/dump_ring.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/malloc/services.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/runtime_options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/span/memory_account.h"

namespace seemalloc {

using options::Id;

std::atomic<bool> dumps_armed{false};

namespace {

constexpr uint64_t kBetweenFailuresNs = 10 * kSecondNs;
// At exit a dump that takes longer is not waited for.
constexpr uint64_t kMaxExitWaitNs = 3 * kSecondNs;

constinit DumpRules rules;
// Bits of the requested reasons (dump_bit).
std::atomic<unsigned> requested{0};
// Set by the thread that writes a dump; it owns `ring`.
std::atomic<bool> writing{false};
constinit DumpRing ring;
std::atomic<uint64_t> last_failure_ns{0};

void update_armed() {
  dumps_armed.store(rules.any() || options::get(Id::dump_signal) != 0, std::memory_order_relaxed);
}

// Only dumps that were not requested explicitly are kept in the ring.
bool is_automatic(DumpReason reason) {
  return reason == DumpReason::kAllocated || reason == DumpReason::kInUse ||
         reason == DumpReason::kGrowth || reason == DumpReason::kTime ||
         reason == DumpReason::kFailure;
}

// Requires: the caller has set `writing`.
void write_dump(DumpReason reason) {
  unsigned keep = static_cast<unsigned>(options::get(Id::dump_keep));
  bool bounded = is_automatic(reason) && keep != 0;
  FixedText<kDumpPathBytes> path;
  bounded = bounded && ring.allocate_storage();
  os::FileIdentity file;
  int result = dump_by_prefix(reason, path, &file);
  warn_of_failed_dump("heap profile", path.c_str(), result);
  if (result != 0 || !bounded) return;
  ring.add(path.c_str(), file);
  count_removed_dumps(ring.shrink_to(keep));
}

// The first of the reasons requested at the same time; one profile answers them all.
DumpReason first_reason(unsigned bits) {
  unsigned reason = 0;
  while ((bits & (1u << reason)) == 0) reason++;
  return static_cast<DumpReason>(reason);
}

void write_requested() {
  if (requested.load(std::memory_order_relaxed) == 0 ||
      writing.exchange(true, std::memory_order_acquire))
    return;
  unsigned bits = requested.exchange(0, std::memory_order_release);
  if (bits != 0) write_dump(first_reason(bits));
  writing.store(false, std::memory_order_release);
}

// One profile answers all requests made before a thread takes them: the first is written, the
// others join it.
void note_requested(unsigned bits) {
  bool is_first = requested.fetch_or(bits, std::memory_order_relaxed) == 0;
  unsigned joining = static_cast<unsigned>(std::popcount(bits)) - (is_first ? 1 : 0);
  if (joining != 0) count_joined_dumps(joining);
}

void request(unsigned bits) {
  if (bits == 0) return;
  note_requested(bits);
  wake_helper();
}

}  // namespace

void dump_option_changed(Id id) {
  if (id == Id::dump_alloc_interval) rules.set_alloc_interval(options::get(id));
  if (id == Id::dump_inuse_interval)
    rules.set_inuse_interval(options::get(id), estimated_live_bytes());
  if (id == Id::dump_growth_interval)
    rules.set_growth_interval(options::get(id), pages::memory_account.bytes());
  if (id == Id::dump_time_interval) {
    uint64_t seconds = options::get(id);
    rules.set_time_interval(seconds * kSecondNs, seconds != 0 ? os::monotonic_ns() : 0);
  }
  update_armed();
}

void dump_options_read() {
  init_dump_names();
  for (Id id : {Id::dump_alloc_interval, Id::dump_inuse_interval, Id::dump_growth_interval,
                Id::dump_time_interval}) {
    dump_option_changed(id);
  }
}

bool dumps_need_helper() { return dumps_armed.load(std::memory_order_relaxed); }

SEEMALLOC_NOINLINE void check_dump_due(uint64_t bytes) {
  unsigned due = rules.on_allocated(bytes) | rules.on_live_bytes(estimated_live_bytes()) |
                 rules.on_heap_bytes(pages::memory_account.bytes());
  if (rules.next_time_ns() != UINT64_MAX) due |= rules.on_time(os::coarse_monotonic_ns());
  request(due);
  if (!helper_is_running() && may_lock()) write_requested();
}

// `requested` is read before `writing`: a request that is no longer in `requested` is then visible
// in `writing`.
bool dump_is_pending() {
  return requested.load(std::memory_order_acquire) != 0 || writing.load(std::memory_order_acquire);
}

void request_dump(DumpReason reason) { request(dump_bit(reason)); }

void check_timed_dumps() {
  unsigned due =
      rules.on_heap_bytes(pages::memory_account.bytes()) | rules.on_time(os::monotonic_ns());
  if (due != 0) note_requested(due);
  write_requested();
}

uint64_t next_dump_tick_in_ns() {
  uint64_t at = rules.next_time_ns(), now = os::monotonic_ns();
  return at > now ? at - now : 0;
}

namespace {
bool failure_is_due() {
  uint64_t now = os::coarse_monotonic_ns(), last = last_failure_ns.load(std::memory_order_relaxed);
  if (last != 0 && now < last + kBetweenFailuresNs) return false;
  return last_failure_ns.compare_exchange_strong(last, now, std::memory_order_relaxed);
}
}  // namespace

void dump_after_failure() {
  if (options::get(Id::dump_on_failure) == 0 || !may_lock() || !failure_is_due()) return;
  if (writing.exchange(true, std::memory_order_acquire)) return;
  write_dump(DumpReason::kFailure);
  writing.store(false, std::memory_order_release);
}

void dump_at_limit(Text& line) {
  constexpr int kWouldDeadlock = -35;  // -EDEADLK
  os::Scratch<FixedText<kDumpPathBytes>> path;
  int result = !path        ? kDumpNoMemory
               : may_lock() ? dump_by_prefix(DumpReason::kFailure, *path)
                            : kWouldDeadlock;
  if (result == 0) {
    line << "heap profile: " << path->c_str();
  } else {
    line << "no heap profile (errno " << -result << ")";
  }
}

void finish_dumps_at_exit() {
  constexpr uint64_t kStepNs = kMillisecondNs;
  for (uint64_t waited = 0; writing.exchange(true, std::memory_order_acquire); waited += kStepNs) {
    if (waited >= kMaxExitWaitNs) return;
    os::pause(kStepNs);
  }
  unsigned bits = requested.exchange(0, std::memory_order_relaxed);
  if (bits != 0) write_dump(first_reason(bits));
}

void reset_dumps_in_child() {
  writing.store(false, std::memory_order_relaxed);
  requested.store(0, std::memory_order_relaxed);
  ring.forget();
}

}  // namespace seemalloc
