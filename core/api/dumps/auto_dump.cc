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
#include "core/pages/span/backing.h"

namespace seemalloc {

using options::Id;

std::atomic<bool> dumps_armed{false};

namespace {

constexpr uint64_t kBetweenFailures_ns = 10 * kSecond_ns;
// At exit a dump that takes longer is not waited for.
constexpr uint64_t kLongestExitWait_ns = 3 * kSecond_ns;

constinit DumpRules rules;
// Bits of the requested reasons (dump_bit).
std::atomic<unsigned> asked{0};
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
  bounded = bounded && ring.make_room();
  os::FileIdentity file;
  int result = dump_by_prefix(reason, path, &file);
  warn_of_failed_dump("heap profile", path.c_str(), result);
  if (result != 0 || !bounded) return;
  ring.add(path.c_str(), file);
  count_removed_dumps(ring.shrink_to(keep));
}

// The first of the reasons requested at the same time; one profile answers them all.
DumpReason first_of(unsigned bits) {
  unsigned reason = 0;
  while ((bits & (1u << reason)) == 0) reason++;
  return static_cast<DumpReason>(reason);
}

void write_asked() {
  if (asked.load(std::memory_order_relaxed) == 0 ||
      writing.exchange(true, std::memory_order_acquire))
    return;
  unsigned bits = asked.exchange(0, std::memory_order_release);
  if (bits != 0) write_dump(first_of(bits));
  writing.store(false, std::memory_order_release);
}

// One profile answers all requests made before a thread takes them: the first is written, the
// others join it.
void note_asked(unsigned bits) {
  bool is_first = asked.fetch_or(bits, std::memory_order_relaxed) == 0;
  unsigned joining = static_cast<unsigned>(std::popcount(bits)) - (is_first ? 1 : 0);
  if (joining != 0) count_joined_dumps(joining);
}

void ask(unsigned bits) {
  if (bits == 0) return;
  note_asked(bits);
  wake_helper();
}

}  // namespace

void dump_option_changed(Id id) {
  if (id == Id::dump_alloc_interval) rules.set_alloc_interval(options::get(id));
  if (id == Id::dump_inuse_interval)
    rules.set_inuse_interval(options::get(id), sampled_bytes_in_use());
  if (id == Id::dump_growth_interval)
    rules.set_growth_interval(options::get(id), pages::backing.bytes());
  if (id == Id::dump_time_interval) {
    uint64_t seconds = options::get(id);
    rules.set_time_interval(seconds * kSecond_ns, seconds != 0 ? os::monotonic_ns() : 0);
  }
  update_armed();
}

void dump_options_read() {
  dump_names_begin();
  for (Id id : {Id::dump_alloc_interval, Id::dump_inuse_interval, Id::dump_growth_interval,
                Id::dump_time_interval}) {
    dump_option_changed(id);
  }
}

bool dumps_want_helper() { return dumps_armed.load(std::memory_order_relaxed); }

SEEMALLOC_NOINLINE void look_for_dump(uint64_t bytes) {
  unsigned due = rules.allocated(bytes) | rules.in_use_is(sampled_bytes_in_use()) |
                 rules.heap_is(pages::backing.bytes());
  if (rules.next_time_ns() != UINT64_MAX) due |= rules.time_is(os::coarse_monotonic_ns());
  ask(due);
  if (!helper_runs() && may_lock()) write_asked();
}

// `asked` is read before `writing`: a request that is no longer in `asked` is then visible in
// `writing`.
bool dump_is_pending() {
  return asked.load(std::memory_order_acquire) != 0 || writing.load(std::memory_order_acquire);
}

void ask_for_dump(DumpReason reason) { ask(dump_bit(reason)); }

void tick_dumps() {
  unsigned due = rules.heap_is(pages::backing.bytes()) | rules.time_is(os::monotonic_ns());
  if (due != 0) note_asked(due);
  write_asked();
}

uint64_t next_dump_tick_in_ns() {
  uint64_t at = rules.next_time_ns(), now = os::monotonic_ns();
  return at > now ? at - now : 0;
}

namespace {
bool failure_is_due() {
  uint64_t now = os::coarse_monotonic_ns(), last = last_failure_ns.load(std::memory_order_relaxed);
  if (last != 0 && now < last + kBetweenFailures_ns) return false;
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

void finish_dumps() {
  constexpr uint64_t kStep_ns = kMillisecond_ns;
  for (uint64_t waited = 0; writing.exchange(true, std::memory_order_acquire); waited += kStep_ns) {
    if (waited >= kLongestExitWait_ns) return;
    os::pause(kStep_ns);
  }
  unsigned bits = asked.exchange(0, std::memory_order_relaxed);
  if (bits != 0) write_dump(first_of(bits));
}

void forget_dumps_in_child() {
  writing.store(false, std::memory_order_relaxed);
  asked.store(0, std::memory_order_relaxed);
  ring.forget();
}

}  // namespace seemalloc
