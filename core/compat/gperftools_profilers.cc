// gperftools' calls that start, stop and write profiles: HeapProfiler…, Profiler….
//
// Threads: any; starting and stopping take turns, everything else does not wait.
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/auto_dump.h"
#include "core/api/dumps/cpu_profile_runs.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/helper/helper.h"
#include "core/api/malloc/malloc_calls.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/compat/compat_fork.h"
#include "core/compat/control_settings.h"
#include "core/compat/heap_text.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/report_memory.h"

using namespace seemalloc;
using namespace seemalloc::compat;

namespace {

void warn_failed(const char* what, const char* path, const char* why) {
  FixedText<kDumpPathBytes + 160> line;
  line << what << " " << path << ": " << why;
  warn(line.c_str());
}

void warn_too_long(const char* call, const char* what, size_t most, const char* text) {
  FixedText<kDumpPathBytes + 160> line;
  line << call << ": expected a " << what << " of fewer than " << uint64_t{most}
       << " bytes: " << text;
  warn(line.c_str());
}

// ---- heap profiles ----
//
// HeapProfilerStart has the effect that HEAPPROFILE has from the start of the program: dumps in
// gperftools' text format, controlled by the same options.

using options::Id;
enum class Heap { kByEnvironment, kOn, kOff };

// Held while profiling is started or stopped, not while a profile is written.
Lock heap_lock;
constinit std::atomic<Heap> heap_state{Heap::kByEnvironment};
// True if HeapProfilerStart has set the option `sample`; its value before, and the last interval
// that was not 0.
bool samples_everything = false;
uint64_t sample_before = 0, interval_before = 0;
bool sample_set_by_us = false;  // neither the user nor the program has chosen it

// The values of the options before the start.
constexpr Id kHeapOptions[] = {Id::dump_prefix,         Id::dump_names,
                               Id::dump_final,          Id::dump_alloc_interval,
                               Id::dump_inuse_interval, Id::dump_time_interval};
constexpr unsigned kHeapOptionCount = sizeof(kHeapOptions) / sizeof(kHeapOptions[0]);
char options_before[kHeapOptionCount][options::kMaxTextBytes];

bool heap_is_profiled() {
  Heap state = heap_state.load(std::memory_order_acquire);
  return state == Heap::kOn || (state == Heap::kByEnvironment && heap_is_profiled_by_variable());
}

void save_options() {
  for (unsigned i = 0; i < kHeapOptionCount; i++) {
    Text value(options_before[i], sizeof(options_before[i]));
    print_option(kHeapOptions[i], value);
  }
}

void restore_options() {
  for (unsigned i = 0; i < kHeapOptionCount; i++)
    set_option_to(options::row(kHeapOptions[i]).name, options_before[i]);
}

// Keeps values that SEEMALLOC_CONF or `seemalloc set` has changed. An option that was set to its
// default counts as not set.
void set_if_default(Id id, uint64_t value) {
  const options::Row& row = options::row(id);
  if (options::get(id) == row.default_value)
    set_option_to(row.name, value < row.max ? value : row.max);
}

void set_dump_options(const char* prefix) {
  set_option_to("dump_prefix", prefix);
  set_option_to("dump_names", "gperftools");
  HeapProfileIntervals intervals = heap_profile_intervals(environ, warn);
  set_if_default(Id::dump_alloc_interval, intervals.allocated);
  set_if_default(Id::dump_inuse_interval, intervals.in_use);
  set_if_default(Id::dump_time_interval, intervals.seconds);
  set_if_default(Id::dump_final, 1);
}

// Records each allocation, as HEAPPROFILE does, unless an interval was chosen.
void sample_everything() {
  uint64_t sample = options::get(Id::sample);
  sample_set_by_us =
      !options::is_explicitly_set(Id::sample) || (sample_set_by_us && sample == sample_before);
  samples_everything = sample == 0 || sample_set_by_us;
  if (!samples_everything) return;
  sample_before = sample;
  interval_before = options::last_sample_interval();
  set_option_to("sample", uint64_t{1});
}

void restore_sampling() {
  if (!samples_everything || options::get(Id::sample) != 1) return;
  set_option_to("sample", sample_before);
  options::remember_sample_interval(interval_before);
}

// ---- CPU ----

constexpr size_t kPathBytes = 1024;  // as in gperftools' ProfilerState
static_assert(kPathBytes >= kDumpPathBytes);

Lock cpu_lock;
char cpu_path[kPathBytes];  // the argument of ProfilerStart; empty: it has started no profile
uint64_t cpu_number = 0;    // the number of its profile (cpu_profiler.h)
int cpu_process = 0;        // the process that has started it
time_t cpu_started = 0;

bool start_cpu(const char* path) {
  if (path == nullptr) return false;
  if (*path == 0) return warn("ProfilerStart: expected a path, got an empty one"), false;
  if (text_length(path) >= kDumpPathBytes)
    return warn_too_long("ProfilerStart", "path", kDumpPathBytes, path), false;
  {
    LockGuard guard(cpu_lock);
    if (cpu_path[0] != 0) return false;
    CpuStartResult result = start_cpu_profile(requested_cpu_profile(), &cpu_number);
    if (result != CpuStartResult::kStarted)
      return warn_failed("CPU profile", path, describe(result)), false;
    memcpy(cpu_path, path, text_length(path) + 1);
    cpu_process = os::process_id();
    cpu_started = static_cast<time_t>(os::realtime_ns() / kSecondNs);
  }
  start_helper_for_work();  // which finds new threads
  wake_helper();            // so that it finds them from now on
  return true;
}

// Writes to the path as it is: a percent sign has no special meaning. Requires: cpu_lock.
void write_cpu(bool ended) {
  CollectedCpuProfile taken{};
  CpuCollectResult result = collect_cpu_profile(cpu_number, ended, &taken);
  if (result == CpuCollectResult::kReplaced)
    return warn_failed("CPU profile", cpu_path,
                       "another caller ended it and started a new one; the profile is lost");
  bool written =
      result == CpuCollectResult::kCollected && write_profile_as(taken.profile, cpu_path) == 0;
  if (result == CpuCollectResult::kCollected) release_profile(taken.profile);
  if (!written) warn_failed("CPU profile", cpu_path, "could not be written");
}

// Stops the profile that ProfilerStart started; false if there is none. Requires: cpu_lock.
bool stop_started_cpu() {
  if (cpu_path[0] == 0) return false;
  write_cpu(true);
  cpu_path[0] = 0;
  return true;
}

// Stops the profile that ProfilerStart started. If there is none, stops the one that CPUPROFILE
// started.
void stop_cpu() {
  {
    LockGuard guard(cpu_lock);
    if (stop_started_cpu()) return;
  }
  stop_cpu_run();
}

void flush_cpu() {
  {
    LockGuard guard(cpu_lock);
    if (cpu_path[0] != 0) return write_cpu(false);
  }
  flush_cpu_run();
}

// A program need not stop its profile before it ends. end_cpu_run() ends a profile that CPUPROFILE
// began.
__attribute__((destructor(102))) void stop_cpu_at_exit() {
  constexpr uint64_t kMaxNs = 3 * kSecondNs;
  // Skips a profile that a child of vfork, or of a bare system call, shares with its parent.
  if (cpu_process != os::process_id() || !may_lock() || !cpu_lock.try_lock_for(kMaxNs)) return;
  stop_started_cpu();
  cpu_lock.unlock();
}

}  // namespace

// Blocks allocated before the call are not in its profiles.
SEEMALLOC_EXPORT void HeapProfilerStart(const char* prefix) {
  if (prefix == nullptr) return;
  if (text_length(prefix) >= options::kMaxTextBytes)
    return warn_too_long("HeapProfilerStart", "prefix", options::kMaxTextBytes, prefix);
  LockGuard guard(heap_lock);
  if (heap_is_profiled()) return;
  if (!reset_absolute_profile())
    return warn_failed("heap profile", prefix, "no memory to start it");
  save_options();
  set_dump_options(prefix);
  sample_everything();
  heap_state.store(Heap::kOn, std::memory_order_release);
}

SEEMALLOC_EXPORT void HeapProfilerStop(void) {
  LockGuard guard(heap_lock);
  if (!heap_is_profiled()) return;
  if (heap_state.exchange(Heap::kOff, std::memory_order_relaxed) == Heap::kOn) {
    restore_options();
    restore_sampling();
  } else {
    for (const char* name :
         {"dump_final", "dump_alloc_interval", "dump_inuse_interval", "dump_time_interval"})
      set_option_to(name, uint64_t{0});
    // HEAPPROFILE makes the sampler record each allocation, which is useless from now on, except
    // for HEAPCHECK.
    if (options::get(Id::sample) == 1 && options::get(Id::leak_summary) == 0) {
      sample_before = options::row(Id::sample).default_value;
      sample_set_by_us = true;
      set_option_to("sample", sample_before);
    }
  }
}

SEEMALLOC_EXPORT int IsHeapProfilerRunning(void) { return heap_is_profiled() ? 1 : 0; }

SEEMALLOC_EXPORT void HeapProfilerDump(const char*) {
  if (!heap_is_profiled()) return;
  FixedText<kDumpPathBytes> path;
  if (dump_by_prefix(DumpReason::kRequested, path) != 0)
    warn_failed("heap profile", path.c_str(), "could not be written");
}

SEEMALLOC_EXPORT char* GetHeapProfile(void) {
  ProfileBytes text{};
  bool there = heap_is_profiled() && heap_text(HeapText::kAbsolute, &text);
  char* copy = static_cast<char*>(allocate(text.bytes + 1));
  if (copy != nullptr) {
    if (there) memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = 0;
  }
  if (there) os::unmap_report(text.data, text.mapped_bytes);
  return copy;
}

namespace {
struct Options {
  int (*filter_in_thread)(void* argument);
  void* filter_in_thread_argument;
};
struct State {
  int enabled;
  time_t start_time;
  char profile_name[kPathBytes];
  int samples_gathered;
};
}  // namespace

SEEMALLOC_EXPORT int ProfilerStartWithOptions(const char* path, const Options* options) {
  if (options != nullptr && options->filter_in_thread != nullptr) {
    warn_failed("CPU profile", path != nullptr ? path : "", "filtering threads is not supported");
    return 0;
  }
  return start_cpu(path) ? 1 : 0;
}
SEEMALLOC_EXPORT int ProfilerStart(const char* path) { return start_cpu(path) ? 1 : 0; }
SEEMALLOC_EXPORT void ProfilerStop(void) { stop_cpu(); }
SEEMALLOC_EXPORT void ProfilerFlush(void) { flush_cpu(); }
SEEMALLOC_EXPORT void ProfilerEnable(void) {}
SEEMALLOC_EXPORT void ProfilerDisable(void) {}
SEEMALLOC_EXPORT void ProfilerRegisterThread(void) {}
// Writes the program counters of the caller's stack, innermost first, or of the stack that the
// signal with `ucontext` has interrupted. Leaves out the first `skip`.
SEEMALLOC_EXPORT int ProfilerGetStackTrace(void** result, int most, int skip,
                                           const void* ucontext) {
  constexpr int kMax = 256;
  uintptr_t frames[kMax];
  if (result == nullptr || most <= 0) return 0;
  if (skip < 0) skip = 0;
  unsigned wanted = static_cast<unsigned>(most < kMax - skip ? most + skip : kMax);
  unsigned depth = ucontext != nullptr ? interrupted_call_stack(ucontext, frames, wanted)
                                       : call_stack(frames, wanted);
  int count = 0;
  for (unsigned i = static_cast<unsigned>(skip); i < depth && count < most; i++)
    result[count++] = reinterpret_cast<void*>(frames[i]);
  return count;
}
SEEMALLOC_EXPORT int ProfilingIsEnabledForAllThreads(void) { return cpu_report().running ? 1 : 0; }
SEEMALLOC_EXPORT void ProfilerGetCurrentState(State* state) {
  CpuReport report = cpu_report();
  memset(state, 0, sizeof(*state));
  state->enabled = report.running ? 1 : 0;
  if (state->enabled == 0) return;
  LockGuard guard(cpu_lock);
  Text name(state->profile_name, sizeof(state->profile_name));
  uint64_t wall_ns = 0;
  if (cpu_path[0] != 0) {
    name << cpu_path;
    state->start_time = cpu_started;
  } else if (cpu_run_name(name, &wall_ns)) {
    state->start_time = static_cast<time_t>(wall_ns / kSecondNs);
  }
  state->samples_gathered = static_cast<int>(report.interrupts);
}

namespace seemalloc::compat {

// The CPU profile belongs to the parent.
void reset_profilers_in_child() {
  heap_lock.reset();
  cpu_lock.reset();
  cpu_path[0] = 0;
}

}  // namespace seemalloc::compat
