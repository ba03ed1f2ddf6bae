// gperftools' calls that start, stop and write profiles: HeapProfiler…, Profiler….
//
// Threads: any; starting and stopping take turns, everything else does not wait.
#include <errno.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "core/api/block_calls.h"
#include "core/api/sampling.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/compat/compat_fork.h"
#include "core/compat/control_settings.h"
#include "core/compat/heap_text.h"
#include "core/os/lock.h"
#include "core/os/os.h"

using namespace seemalloc;
using namespace seemalloc::compat;

// In <seemalloc/seemalloc.h>; absent in a library without a CPU profiler.
extern "C" {
int seemalloc_cpu_start(unsigned frequency) __attribute__((weak));
int seemalloc_cpu_stop(void) __attribute__((weak));
int seemalloc_cpu_dump(const char* path) __attribute__((weak));
int seemalloc_cpu_running(size_t* interrupts) __attribute__((weak));
}

namespace {

constexpr size_t kPathBytes = 1024;  // as gperftools' ProfilerState has it

void complain(const char* what, const char* path, const char* why) {
  FixedText<kPathBytes + 160> line;
  line << what << " " << path << ": " << why;
  warn(line.c_str());
}

// ---- heap ----

Lock heap_lock;
char heap_prefix[kPathBytes];
std::atomic<bool> heap_running{false};
std::atomic<unsigned> heap_dumps{0};
bool heap_started_sampling = false;

void dump_heap(const char* reason) {
  FixedText<kPathBytes + 32> path;
  {
    LockGuard guard(heap_lock);
    unsigned number = heap_dumps.fetch_add(1, std::memory_order_relaxed) + 1;
    path << heap_prefix << ".";
    for (unsigned digit = 1000; digit > 1 && number < digit; digit /= 10) path << "0";
    path << number << ".heap";
  }
  if (write_heap_text(HeapText::kAbsolute, path.c_str()) != 0) complain("heap profile", path.c_str(), "could not be written");
  (void)reason;
}

// ---- CPU ----

Lock cpu_lock;
char cpu_path[kPathBytes];
time_t cpu_started = 0;

bool cpu_running(size_t* interrupts) {
  *interrupts = 0;
  return seemalloc_cpu_running != nullptr && seemalloc_cpu_running(interrupts) != 0;
}

bool start_cpu(const char* path) {
  if (path == nullptr || text_length(path) >= kPathBytes || seemalloc_cpu_start == nullptr) return false;
  LockGuard guard(cpu_lock);
  if (cpu_path[0] != 0) return false;
  int saved = errno;
  bool started = seemalloc_cpu_start(0) == 0;
  if (!started) complain("CPU profile", path, errno == EBUSY ? "SIGPROF or its timer is in use" : "could not be started");
  errno = saved;
  if (!started) return false;
  memcpy(cpu_path, path, text_length(path) + 1);
  cpu_started = static_cast<time_t>(os::realtime_ns() / kSecond_ns);
  return true;
}

// Requires: cpu_lock.
void write_cpu() {
  int saved = errno;
  if (seemalloc_cpu_dump(cpu_path) != 0) complain("CPU profile", cpu_path, "could not be written");
  errno = saved;
}

void stop_cpu() {
  LockGuard guard(cpu_lock);
  if (cpu_path[0] == 0) return;
  seemalloc_cpu_stop();
  write_cpu();
  cpu_path[0] = 0;
}

// A program need not stop its profile before it ends.
__attribute__((destructor(102))) void stop_cpu_at_exit() { stop_cpu(); }

}  // namespace

SEEMALLOC_EXPORT void HeapProfilerStart(const char* prefix) {
  if (prefix == nullptr || text_length(prefix) >= kPathBytes) return;
  LockGuard guard(heap_lock);
  if (heap_running.load(std::memory_order_relaxed)) return;
  memcpy(heap_prefix, prefix, text_length(prefix) + 1);
  heap_dumps.store(0, std::memory_order_relaxed);
  heap_started_sampling = !sampling_is_on();
  if (heap_started_sampling) switch_sampling(true);
  heap_running.store(true, std::memory_order_release);
}

SEEMALLOC_EXPORT void HeapProfilerStop(void) {
  LockGuard guard(heap_lock);
  if (!heap_running.exchange(false, std::memory_order_relaxed)) return;
  if (heap_started_sampling) switch_sampling(false);
}

SEEMALLOC_EXPORT int IsHeapProfilerRunning(void) { return heap_running.load(std::memory_order_acquire) ? 1 : 0; }

SEEMALLOC_EXPORT void HeapProfilerDump(const char* reason) {
  if (heap_running.load(std::memory_order_acquire)) dump_heap(reason);
}

SEEMALLOC_EXPORT char* GetHeapProfile(void) {
  ProfileBytes text{};
  bool there = heap_running.load(std::memory_order_acquire) && heap_text(HeapText::kAbsolute, &text);
  char* copy = static_cast<char*>(allocate(text.bytes + 1));
  if (copy != nullptr) {
    if (there) memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = 0;
  }
  if (there) os::unmap(text.data, text.mapped_bytes, os::Reason::kReport);
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
    complain("CPU profile", path != nullptr ? path : "", "a filter of threads is not supported");
    return 0;
  }
  return start_cpu(path) ? 1 : 0;
}
SEEMALLOC_EXPORT int ProfilerStart(const char* path) { return start_cpu(path) ? 1 : 0; }
SEEMALLOC_EXPORT void ProfilerStop(void) { stop_cpu(); }
SEEMALLOC_EXPORT void ProfilerFlush(void) {
  LockGuard guard(cpu_lock);
  if (cpu_path[0] != 0) write_cpu();
}
SEEMALLOC_EXPORT void ProfilerEnable(void) {}
SEEMALLOC_EXPORT void ProfilerDisable(void) {}
SEEMALLOC_EXPORT void ProfilerRegisterThread(void) {}
SEEMALLOC_EXPORT int ProfilingIsEnabledForAllThreads(void) {
  size_t interrupts;
  return cpu_running(&interrupts) ? 1 : 0;
}
SEEMALLOC_EXPORT void ProfilerGetCurrentState(State* state) {
  size_t interrupts = 0;
  memset(state, 0, sizeof(*state));
  state->enabled = cpu_running(&interrupts) ? 1 : 0;
  if (state->enabled == 0) return;
  LockGuard guard(cpu_lock);
  state->start_time = cpu_started;
  memcpy(state->profile_name, cpu_path, sizeof(cpu_path));
  state->samples_gathered = static_cast<int>(interrupts);
}

namespace seemalloc::compat {

// The CPU profile is the parent's.
void forget_profilers_in_child() {
  heap_lock.reset();
  cpu_lock.reset();
  cpu_path[0] = 0;
}

}  // namespace seemalloc::compat
