#include "core/api/cpu_runs.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/api/cpu_profiler.h"
#include "core/api/dump.h"
#include "core/api/profile_kinds.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/os.h"
#include "core/os/process.h"

// gperftools' own profiler, where the program has it; and the ends of this library.
extern "C" {
int ProfilerStart(const char* path) __attribute__((weak));
extern const char __ehdr_start SEEMALLOC_HIDDEN;
extern const char _end SEEMALLOC_HIDDEN;
}

namespace seemalloc {

namespace {

constexpr size_t kMaxPathBytes = 1024;

// What gperftools' variables say. Written at load only, but for `number` and `in_child`.
struct Variables {
  char* path = nullptr;  // the value of CPUPROFILE, in the environment; null: not set
  bool named_after_process = false;
  bool wall = false;
  int signal = 0;
  unsigned frequency = 0;  // 0: not set
  unsigned number = 0;     // of profiles between two signals
};
constinit Variables variables;
std::atomic<bool> running{false};    // a profile that this file has started
std::atomic<unsigned> ending{0};     // those that are about to end and write it
std::atomic<bool> toggle_asked{false};
std::atomic<int> helper_thread{0};

// ---- gperftools' variables ----

char* value_of(const char* name) {
  size_t length = text_length(name);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; variable++) {
    if (text_equal(*variable, length, name) && (*variable)[length] == '=') return *variable + length + 1;
  }
  return nullptr;
}

// 0, and a line on stderr, when it is no number from 1 to `most`.
unsigned number_in(const char* name, unsigned most) {
  const char* value = value_of(name);
  if (value == nullptr) return 0;
  unsigned number = 0;
  const char* at = value;
  for (; *at >= '0' && *at <= '9' && number <= most; at++) number = number * 10 + static_cast<unsigned>(*at - '0');
  if (at != value && *at == 0 && number >= 1 && number <= most) return number;
  FixedText<256> line;
  line << name << ": bad value \"" << value << "\" ignored; expected a number from 1 to " << most;
  warn(line.c_str());
  return 0;
}

// gperftools marks the first letter of the path for the processes that this one will start: they append their own number.
void read_path(char* value) {
  constexpr unsigned char kMark = 0x80;
  unsigned char first = static_cast<unsigned char>(*value);
  variables.path = value;
  variables.named_after_process = (first & kMark) != 0;
  *value = static_cast<char>(first | kMark);
}

// The variables are for the other profiler then; two of them would only be in each other's way.
bool another_profiler_is_there() {
  uintptr_t theirs = reinterpret_cast<uintptr_t>(&ProfilerStart);
  return theirs != 0 && (theirs < reinterpret_cast<uintptr_t>(&__ehdr_start) || theirs >= reinterpret_cast<uintptr_t>(&_end));
}

void read_variables() {
  if (os::is_privileged() || another_profiler_is_there()) return;
  char* path = value_of("CPUPROFILE");
  if (path == nullptr || *path == 0) return;
  read_path(path);
  variables.wall = value_of("CPUPROFILE_REALTIME") != nullptr;
  constexpr unsigned kMostSignals = 64;
  variables.signal = static_cast<int>(number_in("CPUPROFILESIGNAL", kMostSignals));
  // More than gperftools' most is its most.
  variables.frequency = number_in("CPUPROFILE_FREQUENCY", 1000000000);
  if (variables.frequency > kMaxCpuFrequency) variables.frequency = kMaxCpuFrequency;
}

// The path as a pattern, where a percent sign means more than itself.
void append_path(Text& pattern) {
  constexpr char kLetter = 0x7F;
  for (const char* at = variables.path; *at != 0; at++) {
    char letter = at == variables.path ? static_cast<char>(*at & kLetter) : *at;
    pattern << letter;
    if (letter == '%') pattern << letter;
  }
  if (variables.named_after_process) pattern << '_' << static_cast<uint64_t>(os::process_id());
  if (variables.signal != 0) pattern << '.' << variables.number++;
}

// ---- both ----

bool is_by_variable() { return variables.path != nullptr; }

CpuRequest request() {
  CpuRequest request = requested_cpu_profile();
  if (!is_by_variable()) return request;
  if (variables.frequency != 0) request.frequency = variables.frequency;
  request.wall |= variables.wall;
  return request;
}

void append_pattern(Text& pattern) {
  const char* file = options::get_text(options::Id::cpu_profile);
  const char* prefix = options::get_text(options::Id::dump_prefix);
  if (is_by_variable()) {
    append_path(pattern);
  } else if (*file != 0) {
    pattern << file;
  } else {
    pattern << (*prefix != 0 ? prefix : "seemalloc") << ".%p.%n.cpu.pb";
  }
}

void begin() {
  CpuStart started = start_cpu_profile(request());
  if (started == CpuStart::kStarted) return running.store(true, std::memory_order_relaxed);
  FixedText<160> line;
  line << "no CPU profile: " << text_of(started);
  warn(line.c_str());
}

void write_last_line(size_t bytes) {
  CpuReport report = cpu_report();
  FixedText<160> line;
  line << "PROFILE: interrupts/evictions/bytes = " << report.interrupts << '/' << report.evictions << '/' << uint64_t{bytes} << '\n';
  os::write_stderr(line.c_str(), line.size());
}

void write() {
  stop_cpu_profile();
  FixedText<kMaxPathBytes> pattern;
  append_pattern(pattern);
  ProfileBytes profile{};
  constexpr int kNoMemory = -12, kNameTooLong = -36;
  int result = pattern.truncated() ? kNameTooLong : cpu_profile(&profile) ? 0 : kNoMemory;
  if (result == 0) result = write_profile(profile, pattern.c_str());
  if (profile.data != nullptr) give_back(profile);
  if (result != 0) {
    FixedText<kMaxPathBytes + 64> line;
    line << "CPU profile " << pattern.c_str() << " could not be written (errno " << -result << ")";
    warn(line.c_str());
  } else if (is_by_variable()) {
    write_last_line(profile.bytes);
  }
}

// The exiting thread and the helper may come together.
void end() {
  ending.fetch_add(1, std::memory_order_seq_cst);  // before anybody can see that it does not run: end_cpu_run()
  if (running.exchange(false, std::memory_order_seq_cst)) write();
  ending.fetch_sub(1, std::memory_order_release);
}

// Any thread may receive the signal: it only asks, and passes it on to wake the helper out of its poll. What comes there like that
// is no second one.
void on_signal(int signal, siginfo_t* info, void*) {
  int thread = helper_thread.load(std::memory_order_acquire);
  bool in_helper = thread == os::thread_id();
  if (in_helper && info->si_code == SI_TKILL && info->si_pid == os::process_id()) return;
  toggle_asked.store(true, std::memory_order_relaxed);
  if (thread != 0 && !in_helper) os::signal_thread(os::process_id(), thread, signal);
}

void install_signal(int signal) {
  struct sigaction old {};
  bool usable = sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_DFL;
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  if (usable && sigaction(signal, &action, nullptr) == 0) return;
  warn(is_by_variable() ? "CPUPROFILESIGNAL: the signal is in use or cannot be caught; ignored"
                        : "cpu_signal: the signal is in use or cannot be caught; ignored");
}

}  // namespace

int cpu_signal() {
  int chosen = static_cast<int>(options::get(options::Id::cpu_signal));
  return chosen != 0 ? chosen : variables.signal;
}

void cpu_signal_wakes(int thread) { helper_thread.store(thread, std::memory_order_release); }

bool start_cpu_run() {
  bool chosen = *options::get_text(options::Id::cpu_profile) != 0 || options::get(options::Id::cpu_signal) != 0;
  if (!chosen) read_variables();
  if (!chosen && !is_by_variable()) return false;
  if (cpu_signal() != 0) {
    install_signal(cpu_signal());
  } else {
    begin();
  }
  return cpu_signal() != 0 || running;
}

void follow_cpu_signal() {
  if (!toggle_asked.exchange(false, std::memory_order_relaxed)) return;
  if (running) {
    end();
  } else {
    begin();
  }
}

// What the helper is writing would end with the process.
void end_cpu_run() {
  constexpr uint64_t kLongest_ns = 3 * kSecond_ns, kStep_ns = kMillisecond_ns;
  end();
  for (uint64_t waited = 0; ending.load(std::memory_order_seq_cst) != 0 && waited < kLongest_ns; waited += kStep_ns) os::pause(kStep_ns);
}

// A profile is of one process. Where a signal begins one in the child it has a name of its own.
void forget_cpu_run_in_child() {
  running = false;
  ending = 0;
  variables.named_after_process = true;
  toggle_asked.store(false, std::memory_order_relaxed);
  helper_thread.store(0, std::memory_order_relaxed);
}

}  // namespace seemalloc
