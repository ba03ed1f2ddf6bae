#include "core/api/dumps/cpu_profile_runs.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/asking_signal.h"
#include "core/api/dumps/auto_dump.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/malloc/services.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/process/process.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/own_image.h"

// gperftools' own profiler, if the program has it.
extern "C" int ProfilerStart(const char* path) __attribute__((weak));

namespace seemalloc {

namespace {

// The settings of gperftools' variables. Written at load only, except `number` and
// `named_after_process`.
struct Variables {
  char path[kDumpPathBytes];  // empty: CPUPROFILE is not set
  bool named_after_process;   // the file is a child's
  bool wall;
  std::atomic<int> signal;
  unsigned frequency;            // 0: not set
  std::atomic<unsigned> number;  // of profiles started by the signal
};
constinit Variables variables{};
// Held while a profile is started, ended or written: otherwise an older file could replace a newer
// one, or a new profile be written as the old one.
Lock run_lock;
// A profile that this file has started; written under run_lock.
std::atomic<bool> running{false};
uint64_t run_number = 0;                 // its number, cpu_profiler.h; under run_lock
bool forked = false;                     // this process is a child of fork
std::atomic<uint64_t> began_wall_ns{0};  // of the last profile, by CLOCK_REALTIME
std::atomic<bool> toggle_requested{false};
// In a child of fork: the time at which the parent's profile of the whole run is continued, or at
// which the helper thread that serves cpu_signal is needed; 0: never.
std::atomic<uint64_t> due_ns{0};
std::atomic<bool> continues_parent_run{false};  // due_ns is for continuing a run
// A child that still exists after this time is not about to call exec: then neither timers nor a
// thread do harm.
constexpr uint64_t kChildGracePeriodNs = 100 * kMillisecondNs;

// ---- gperftools' variables ----

// Returns 0, with a line on stderr, if the value is not a number from 1 to `most`.
unsigned number_in(const char* name, unsigned most) {
  const char* value = environment_value(environ, name);
  if (value == nullptr) return 0;
  unsigned number = 0;
  const char* at = value;
  for (; *at >= '0' && *at <= '9' && number <= most; at++)
    number = number * 10 + static_cast<unsigned>(*at - '0');
  if (at != value && *at == 0 && number >= 1 && number <= most) return number;
  FixedText<256> line;
  line << name << ": bad value \"" << value << "\" ignored; expected a number from 1 to " << most;
  warn(line.c_str());
  return 0;
}

// If the program contains gperftools' profiler, the variables are for that one: two profilers would
// disturb each other.
bool has_gperftools_profiler() {
  uintptr_t theirs = reinterpret_cast<uintptr_t>(&ProfilerStart);
  return theirs != 0 && (theirs < reinterpret_cast<uintptr_t>(__ehdr_start) ||
                         theirs >= reinterpret_cast<uintptr_t>(_end));
}

void append_path(Text& path) {
  path << variables.path;
  if (variables.named_after_process) path << '_' << os::process_id();
  if (variables.signal.load(std::memory_order_relaxed) != 0)
    path << '.' << variables.number.load(std::memory_order_relaxed);
}

void read_variables() {
  constexpr const char kName[] = "CPUPROFILE";
  GperftoolsPath path;
  variables.path[0] = 0;
  if (os::is_privileged() || has_gperftools_profiler() || !path.read(environ, kName)) return;
  if (!path.is_child()) register_child_mark(kName);
  FixedText<kDumpPathBytes - 32> text;  // leaves space for suffixes
  path.append_to(text);
  if (text.truncated()) {
    FixedText<kDumpPathBytes + 160> line;
    line << kName << ": ignored, expected a path of fewer than " << uint64_t{kDumpPathBytes - 32}
         << " bytes: " << text.c_str() << "...";
    return warn(line.c_str());
  }
  Text(variables.path, sizeof(variables.path)) << text.c_str();
  variables.named_after_process = path.is_child();
  variables.wall = environment_value(environ, "CPUPROFILE_REALTIME") != nullptr;
  constexpr unsigned kMaxSignals = 64;
  variables.signal.store(static_cast<int>(number_in("CPUPROFILESIGNAL", kMaxSignals)),
                         std::memory_order_relaxed);
  // More than gperftools' most is its most.
  variables.frequency = number_in("CPUPROFILE_FREQUENCY", 1000000000);
  if (variables.frequency > kMaxCpuFrequency) variables.frequency = kMaxCpuFrequency;
}

// ---- both ----

// Whether the names of the files contain the process id.
bool contains_process_id(const char* pattern) {
  for (const char* at = pattern; *at != 0; at++) {
    if (*at != '%') continue;
    at++;
    if (*at == 'p') return true;
    if (*at == 0) break;
  }
  return false;
}

bool is_by_variable() { return variables.path[0] != 0; }

CpuRequest request() {
  CpuRequest request = requested_cpu_profile();
  request.whole_run = cpu_signal() == 0;
  if (!is_by_variable()) return request;
  if (variables.frequency != 0) request.frequency = variables.frequency;
  request.wall |= variables.wall;
  return request;
}

// The exact name given by the variable, or a pattern.
void append_name(Text& name) {
  if (is_by_variable()) return append_path(name);
  const char* file = options::get_text(options::Id::cpu_profile);
  if (*file != 0) {
    name << file;
    if (forked && !contains_process_id(file)) name << '_' << os::process_id();
    return;
  }
  FixedText<options::kMaxTextBytes> prefix;
  copy_text_option(options::Id::dump_prefix, prefix);
  name << (prefix.size() != 0 ? prefix.c_str() : "seemalloc") << ".%p.%n.cpu.pb";
}

// Requires: run_lock.
void begin() {
  CpuStartResult started = start_cpu_profile(request(), &run_number);
  if (started == CpuStartResult::kStarted) {
    began_wall_ns.store(os::realtime_ns(), std::memory_order_relaxed);
    return running.store(true, std::memory_order_release);
  }
  FixedText<160> line;
  line << "no CPU profile: " << describe(started);
  warn(line.c_str());
}

void write_gperftools_summary(const CollectedCpuProfile& taken) {
  FixedText<160> line;
  line << "PROFILE: interrupts/evictions/bytes = " << taken.interrupts << '/' << taken.evictions
       << '/' << uint64_t{taken.profile.bytes} << '\n';
  os::write_stderr(line.c_str(), line.size());
}

void warn_about_file(const char* file, const char* why) {
  FixedText<kDumpPathBytes + 128> line;
  line << "CPU profile " << file << why;
  warn(line.c_str());
}

// Writes the samples so far, or all of an ended profile. Requires: run_lock.
void write(bool ended) {
  FixedText<kDumpPathBytes> name;
  append_name(name);
  CollectedCpuProfile taken{};
  CpuCollectResult result = collect_cpu_profile(run_number, ended, &taken);
  if (result == CpuCollectResult::kReplaced)
    return warn_about_file(name.c_str(),
                           ": another caller ended it and started a new one; the profile is lost");
  int error = kDumpNoMemory;
  if (result == CpuCollectResult::kCollected) {
    error = is_by_variable() ? write_profile_as(taken.profile, name.c_str())
                             : write_profile(taken.profile, name.c_str());
    release_profile(taken.profile);
  }
  if (error != 0) {
    FixedText<64> why;
    why << " could not be written (errno " << -error << ")";
    warn_about_file(name.c_str(), why.c_str());
  } else if (is_by_variable() && ended) {
    write_gperftools_summary(taken);
  }
}

// Requires: run_lock.
bool end() {
  if (!running.exchange(false, std::memory_order_relaxed)) return false;
  write(true);
  variables.number.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Runs in any thread, so it only requests the change.
void on_signal(int) {
  toggle_requested.store(true, std::memory_order_relaxed);
  wake_helper();
}

void install_signal(int signal) {
  if (take_asking_signal(signal, on_signal)) return;
  warn(is_by_variable() ? "CPUPROFILESIGNAL: the signal is in use or cannot be caught; ignored"
                        : "cpu_signal: the signal is in use or cannot be caught; ignored");
}

}  // namespace

int cpu_signal() {
  int chosen = static_cast<int>(options::get(options::Id::cpu_signal));
  return chosen != 0 ? chosen : variables.signal.load(std::memory_order_relaxed);
}

bool start_cpu_run() {
  bool chosen = *options::get_text(options::Id::cpu_profile) != 0 ||
                options::get(options::Id::cpu_signal) != 0;
  if (!chosen) read_variables();
  if (!chosen && !is_by_variable()) return false;
  if (cpu_signal() != 0 && options::get(options::Id::helper) == 0) {
    warn(is_by_variable()
             ? "CPUPROFILESIGNAL: no helper thread handles the signal (helper:0); ignored"
             : "cpu_signal: no helper thread handles the signal (helper:0); ignored");
  } else if (cpu_signal() != 0) {
    install_signal(cpu_signal());
  } else {
    LockGuard guard(run_lock);
    begin();
  }
  return cpu_signal() != 0 || running;
}

void handle_cpu_signal() {
  if (cpu_signal() != 0 && takes_blocked_signal(cpu_signal(), on_signal)) on_signal(cpu_signal());
  if (!toggle_requested.exchange(false, std::memory_order_relaxed)) return;
  LockGuard guard(run_lock);
  if (running) {
    end();
  } else {
    begin();
  }
}

bool stop_cpu_run() {
  LockGuard guard(run_lock);
  bool would_go_on = continues_parent_run.exchange(false, std::memory_order_relaxed);
  return end() || would_go_on;
}

bool flush_cpu_run() {
  LockGuard guard(run_lock);
  if (!running) return false;
  write(false);
  return true;
}

bool cpu_run_is_running() { return running.load(std::memory_order_relaxed); }

bool cpu_run_name(Text& name, uint64_t* wall_ns) {
  if (!running.load(std::memory_order_acquire)) return false;
  append_name(name);
  *wall_ns = began_wall_ns.load(std::memory_order_relaxed);
  return true;
}

// Takes run_lock to wait for the helper thread, which may be writing a file: if the process ended
// meanwhile, the file would be lost.
void end_cpu_run() {
  constexpr uint64_t kMaxNs = 3 * kSecondNs;
  due_ns.store(0, std::memory_order_relaxed);
  if (!run_lock.try_lock_for(kMaxNs)) return;
  end();
  run_lock.unlock();
}

void reset_cpu_run_in_child(bool profiled) {
  bool by_signal = cpu_signal() != 0;
  bool whole_run = !by_signal && ((profiled && running.load(std::memory_order_relaxed)) ||
                                  continues_parent_run.load(std::memory_order_relaxed));
  run_lock.reset();
  running = false;
  forked = variables.named_after_process = true;
  toggle_requested.store(false, std::memory_order_relaxed);
  continues_parent_run.store(whole_run, std::memory_order_relaxed);
  due_ns.store(by_signal || whole_run ? os::coarse_monotonic_ns() + kChildGracePeriodNs : 0,
               std::memory_order_relaxed);
}

bool cpu_run_in_child_is_due() {
  uint64_t due = due_ns.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(due != 0) && os::coarse_monotonic_ns() >= due;
}

// A thread that finds the lock held leaves it for later.
void restart_cpu_profile_in_child() {
  if (!may_lock() || !run_lock.try_lock()) return;
  due_ns.store(0, std::memory_order_relaxed);
  if (continues_parent_run.exchange(false, std::memory_order_relaxed) && !running) begin();
  run_lock.unlock();
}

}  // namespace seemalloc
