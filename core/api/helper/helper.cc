#include "core/api/helper/helper.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/asking_signal.h"
#include "core/api/dumps/auto_dump.h"
#include "core/api/dumps/cpu_profile_runs.h"
#include "core/api/dumps/dump.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/malloc/process.h"
#include "core/api/malloc/slow_path.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/control.h"
#include "core/api/service/exit_files.h"
#include "core/api/service/socket_directory.h"
#include "core/api/service/stall_watch.h"
#include "core/api/service/trace.h"
#include "core/api/service/wake_up.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/thread/helper_link.h"
#include "core/heap/thread/thread_cache.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/process.h"
#include "core/os/process/sandbox.h"
#include "core/os/process/socket.h"
#include "core/os/process/threads.h"
#include "core/os/runtime/bare_thread.h"
#include "core/os/runtime/report_memory.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/collapse.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/span/memory_account.h"

// A variable of glibc 2.32 and later: not 0 while it knows of no other thread.
extern "C" __attribute__((weak)) char __libc_single_threaded;

namespace seemalloc {

namespace {

// Untouched stack costs address space only.
constexpr size_t kStackBytes = 256 * KiB;
constexpr uint64_t kIdleNs = 500 * kMillisecondNs;
constexpr uint64_t kMinNs = 50 * kMillisecondNs;
// The lag of the coarse clock. It is added to the wait: a helper thread that wakes up too early
// would have to sleep once more.
constexpr uint64_t kClockStepNs = 10 * kMillisecondNs;

// kRefused also stands for a helper that has ended before a filter for all threads.
enum class Helper { kNone, kRunning, kRefused };

std::atomic<Helper> helper{Helper::kNone};
enum class StopReason { kNo, kBeforeFilter, kTemporary };
std::atomic<StopReason> stop_reason{StopReason::kNo};  // why the helper thread must end
constinit os::BareThread thread;
// Number of calls in progress between stop_helper_temporarily() and restart_helper(). Meanwhile no
// helper thread starts.
std::atomic<unsigned> calls_single_threaded{0};
std::atomic<bool> restart_is_due{false};  // when these calls are over
// The credentials of the main thread when the helper thread was started. Written by the thread that
// starts it.
constinit os::Credentials credentials{};
constinit bool has_credentials = false;
// The number of restarts since returns_since_ns. No helper thread starts before not_before_ns.
std::atomic<unsigned> returns{0};
std::atomic<uint64_t> returns_since_ns{0}, not_before_ns{0};
std::atomic<bool> exiting{false};
constinit Control control;
constinit StallWatch stalls;
constinit WakeUp wake_up;
int loaded_process = 0;
std::atomic<unsigned> slow_frees_in_child{0};

uint64_t next_wait_ns() {
  constexpr uint64_t kBetweenSlicesNs = 20 * kMillisecondNs;
  uint64_t wait = pages::next_tick_in_ns();
  wait = kClockStepNs + (wait < kMinNs ? kMinNs : wait < kIdleNs ? wait : kIdleNs);
  if (heap::hole_scan_unfinished()) wait = kBetweenSlicesNs;
  uint64_t dump = next_dump_tick_in_ns();
  if (dump < wait) wait = dump;
  pages::announce_helper_tick(wait);
  return wait;
}

// Up to half a second late.
void set_baseline_if_due() {
  static bool done = false;
  uint64_t after = options::get(options::Id::baseline_after);
  if (done || after == 0 || uptime_ns() < after * kMillisecondNs) return;
  set_profile_baseline();
  done = true;
}

// When a stall report is closed, the kernel waits for all processors, which delays the exit of a
// process by 8 to 20 ms. So a process that runs for less than this time opens no stall report;
// until then only the memory limits are checked.
constexpr uint64_t kWatchStallsAfterNs = 5 * kSecondNs;
// The report also takes a descriptor. A small heap has little to return when the machine is short
// of memory.
constexpr size_t kWatchStallsFromBytes = 32 * MiB;

// Runs in any thread, so it only requests the dump.
void on_dump_signal(int) { request_dump(DumpReason::kSignal); }

int dump_signal() { return static_cast<int>(options::get(options::Id::dump_signal)); }

bool should_stop(StopReason why) {
  if (!os::can_pause()) return true;  // all ways to wait are refused: slow paths purge
  return exiting.load(std::memory_order_relaxed) || why != StopReason::kNo ||
         os::all_threads_calls_are_limited();
}

// Called if a filter for all threads is about to be installed, or if the process must have one
// thread for a moment. Closes all descriptors while that is allowed. From here on slow paths do the
// work of the helper thread. In the second case they may start another one later, even if the
// caller of stop_helper() has stopped waiting.
void shut_down_helper(StopReason why) {
  if (exiting.load(std::memory_order_relaxed)) return;
  if (why != StopReason::kTemporary) {
    end_cpu_run();
    stop_cpu_profile();  // one started by another caller: its timers and signals
  }
  control.forget();
  remove_socket();
  stalls.forget();
  wake_up.forget();
  heap::hole_helper_thread.store(nullptr, std::memory_order_relaxed);
  helper.store(why == StopReason::kTemporary ? Helper::kNone : Helper::kRefused,
               std::memory_order_release);
}

// Detects credentials that the program has changed by system calls of its own, which do not reach
// our functions. This helper thread then ends, and a slow path starts another one, with the
// credentials of its thread.
bool have_credentials_changed() {
  os::Credentials now;
  return has_credentials && os::read_credentials_of_main(&now) && now != credentials;
}

int run_helper() {
  os::this_thread_is_the_helper();
  bool cpu_profile_runs = false;
  int status = 0;
  uint64_t watch_stalls_from_ns = os::monotonic_ns() + kWatchStallsAfterNs;
  os::name_thread("seemalloc");
  heap::hole_helper_thread.store(&heap::thread_cache, std::memory_order_relaxed);
  StopReason why;
  while (why = stop_reason.load(std::memory_order_acquire), !should_stop(why)) {
    heap::tick(true);
    if (dump_signal() != 0 && takes_blocked_signal(dump_signal(), on_dump_signal))
      on_dump_signal(dump_signal());
    check_timed_dumps();
    set_baseline_if_due();
    // Opens a descriptor only if it is needed. At the beginning of a CPU profile idle threads are
    // noticed half a second late.
    wake_up.keep_open(dumps_need_helper() || cpu_signal() != 0 || cpu_profile_runs);
    control.keep_open();
    if (have_credentials_changed()) {
      why = StopReason::kTemporary;
      break;
    }
    // The exiting thread removes the socket once; one made since is ours to remove.
    if (exiting.load(std::memory_order_seq_cst)) remove_socket();
    uint64_t watch_ns = heap::check_pressure_by_helper(stalls.take_report());
    bool is_worth_it = pages::memory_account.bytes() >= kWatchStallsFromBytes;
    if (is_worth_it && os::monotonic_ns() >= watch_stalls_from_ns) stalls.keep_open();
    handle_cpu_signal();
    if (cpu_run_in_child_is_due()) restart_cpu_profile_in_child();
    uint64_t profiler_ns = tick_cpu_profiler();
    cpu_profile_runs = profiler_ns != UINT64_MAX;
    if (profiler_ns < watch_ns) watch_ns = profiler_ns;
    uint64_t wait_ns = next_wait_ns();
    control.wait(stalls, wake_up, watch_ns < wait_ns ? watch_ns : wait_ns);
    // The last thread of the program has ended without the C library's exit. The process ends with
    // this thread, with the exit status of the main thread.
    if (os::is_last_thread(&status)) break;
    control.serve();
    tick_trace(os::monotonic_ns());
  }
  shut_down_helper(why);
  return status;
}

SEEMALLOC_COLD void start_helper() {
  if (os::in_nested_call ||
      os::coarse_monotonic_ns() < not_before_ns.load(std::memory_order_relaxed))
    return;
  Helper none = Helper::kNone;
  if (!helper.compare_exchange_strong(none, Helper::kRunning, std::memory_order_seq_cst)) return;
  // In the child of vfork a thread would be the parent's. The load of calls_single_threaded pairs
  // with stop_helper_temporarily(): either its caller has seen this helper, or this load sees its
  // call.
  constexpr uint64_t kMaxEndNs = 20 * kMillisecondNs;
  thread.wait_for_end(kMaxEndNs);
  if (os::process_id() != loaded_process ||
      calls_single_threaded.load(std::memory_order_seq_cst) != 0 || thread.id() != 0) {
    helper.store(Helper::kNone, std::memory_order_release);
    return;
  }
  if (os::is_in_a_sandbox()) return helper.store(Helper::kRefused, std::memory_order_release);
  // Blocks the signals that the C library uses internally, too, because it does not know of this
  // thread.
  os::MaskBefore before = os::change_signal_mask(SIG_SETMASK, ~os::SignalMask{0});
  if (&__libc_single_threaded != nullptr && __libc_single_threaded != 0)
    os::make_room_for_descriptors();
  has_credentials = os::read_credentials_of_main(&credentials);
  bool started = thread.start(run_helper, kStackBytes);
  os::restore_signal_mask(before);
  if (!started) helper.store(Helper::kRefused, std::memory_order_release);
}

}  // namespace

void start_helper_if_due() {
  if (SEEMALLOC_LIKELY(helper.load(std::memory_order_relaxed) != Helper::kNone)) return;
  bool child_waits = cpu_run_in_child_is_due();
  // A process that never grows beyond its first region gets no thread and no socket.
  if ((pages::heap_is_tiny() && !child_waits) || !process_started()) return;
  if (child_waits) restart_cpu_profile_in_child();
  if (options::get(options::Id::helper) != 0) start_helper();
}

void start_helper_for_work() {
  if (options::get(options::Id::helper) != 0 && process_started()) start_helper();
}

void start_helper_at_load() {
  loaded_process = os::process_id();
  if (os::calls_are_limited()) return;
  if (dump_signal() != 0 && !take_asking_signal(dump_signal(), on_dump_signal)) {
    warn("dump_signal: the signal is in use or cannot be caught; ignored");
  }
  set_runtime_directory(environment_value(environ, "XDG_RUNTIME_DIR"));
  bool wants_cpu = start_cpu_run();
  if (options::get(options::Id::helper) == 0) return;
  if (dumps_need_helper() || wants_cpu || options::get(options::Id::at_start) != 0) start_helper();
}

namespace {
void warn_exit_in_allocator() {
  if (!dumps_at_exit() && !cpu_run_is_running()) return;
  warn(
      "exit was called in a signal handler that interrupted the allocator: files requested at exit are not written");
}
}  // namespace

// The memory of a child of vfork is its parent's, and a child made by a bare system call has not
// run our fork handlers: files, socket and helper belong to the parent.
void stop_helper_at_exit() {
  // Most processes have no helper to end. They make no system call here: a filter may have been
  // installed unnoticed.
  bool idle = helper.load(std::memory_order_acquire) == Helper::kNone && !dumps_at_exit() &&
              !cpu_run_is_running();
  if (idle || os::calls_are_limited()) return;
  if (os::process_id() != loaded_process) return;
  exiting.store(true, std::memory_order_seq_cst);
  remove_socket();
  // A signal handler that has interrupted us may end the process, although it should not. The
  // interrupted code holds locks.
  if (!may_lock()) return warn_exit_in_allocator();
  end_cpu_run();
  dump_at_exit();
}

bool helper_is_running() { return helper.load(std::memory_order_acquire) == Helper::kRunning; }

void wake_helper() {
  int id = thread.id();
  if (id > 0) wake_up.wake(os::process_id(), id);
}

namespace {
// Does nothing in a child of vfork, where the helper thread belongs to the parent. Waits until the
// helper thread has made its last system calls, but not for ever; the limit is shorter in a signal
// handler, which may have interrupted a critical section that the helper thread waits for.
void stop_helper(StopReason why) {
  constexpr uint64_t kStepNs = kMillisecondNs;
  constexpr unsigned kMaxSteps = 2000, kMaxStepsInHandler = 20;
  if (!helper_is_running() || os::is_helper_thread() || os::process_id() != loaded_process) return;
  stop_reason.store(why, std::memory_order_release);
  unsigned most = may_lock() ? kMaxSteps : kMaxStepsInHandler;
  for (unsigned step = 0; step < most && (helper_is_running() || thread.id() != 0); step++) {
    control.interrupt();
    wake_helper();
    thread.id() != 0 ? thread.wait_for_end(kStepNs) : os::pause(kStepNs);
  }
  if (thread.id() == 0) thread.wait_for_end(most * kStepNs);
  stop_reason.store(StopReason::kNo, std::memory_order_release);
}
}  // namespace

void stop_helper_before_filter() { stop_helper(StopReason::kBeforeFilter); }

void restart_helper_without_filter() {
  Helper refused = Helper::kRefused;
  helper.compare_exchange_strong(refused, Helper::kNone, std::memory_order_acq_rel);
}

bool helper_is_only_other_thread() {
  return helper_is_running() && os::process_id() == loaded_process && os::thread_count() <= 2;
}

// Calls of several threads may overlap: no helper thread runs until the last of them is over.
bool stop_helper_temporarily() {
  if (os::calls_are_limited() || os::is_helper_thread() || os::process_id() != loaded_process)
    return false;
  calls_single_threaded.fetch_add(1, std::memory_order_seq_cst);
  // Pairs with start_helper().
  if (helper.load(std::memory_order_seq_cst) != Helper::kRunning) return true;
  stop_helper(StopReason::kTemporary);
  restart_is_due.store(true, std::memory_order_relaxed);
  return true;
}

namespace {
// A program that gives up its privileges makes dozens of such calls, and may be idle afterwards. A
// program that changes them very frequently pays for at most a hundred starts per second: beyond
// that, slow paths do the work of the helper thread for a second, and start it afterwards.
bool restarts_too_often(uint64_t now_ns) {
  constexpr unsigned kMaxReturns = 100;
  if (now_ns - returns_since_ns.load(std::memory_order_relaxed) > kSecondNs) {
    returns_since_ns.store(now_ns, std::memory_order_relaxed);
    returns.store(0, std::memory_order_relaxed);
  }
  return returns.fetch_add(1, std::memory_order_relaxed) >= kMaxReturns;
}
}  // namespace

void restart_helper(uint64_t pause_ns) {
  // 0: this process was forked in the middle of the call.
  unsigned calls = calls_single_threaded.load(std::memory_order_relaxed);
  while (calls != 0 && !calls_single_threaded.compare_exchange_weak(calls, calls - 1,
                                                                    std::memory_order_seq_cst)) {
  }
  if (calls != 1 || !restart_is_due.exchange(false, std::memory_order_relaxed)) return;
  uint64_t now_ns = os::coarse_monotonic_ns();
  if (restarts_too_often(now_ns)) pause_ns = kSecondNs;
  if (pause_ns != 0) not_before_ns.store(now_ns + pause_ns, std::memory_order_relaxed);
  start_helper();
}

namespace {
// Called in a child of fork that frees inherited blocks and allocates nothing. A child that frees
// little may be about to call exec.
void on_slow_free_in_child() {
  constexpr unsigned kWorthAHelper = 64;  // spans that have become an eighth free
  if (!may_lock()) return;
  bool worth_it =
      slow_frees_in_child.fetch_add(1, std::memory_order_relaxed) + 1 >= kWorthAHelper ||
      pages::has_cached_huge();
  if (!worth_it) return;
  heap::on_slow_free.store(nullptr, std::memory_order_relaxed);
  start_helper_if_due();
}
}  // namespace

// fork does not wait for the helper thread, which may be sending to a slow client: it holds only
// locks that the fork handlers take, and the state of the control socket, which the child discards
// in any state.
void reset_helper_in_child() {
  control.forget();
  os::reset_report_memory_in_child();
  stalls.forget();
  wake_up.forget();
  pages::close_collapse_file_in_child();
  reset_trace_in_child();
  reset_cpu_run_in_child(reset_cpu_profile_in_child());
  thread.forget();
  calls_single_threaded.store(0, std::memory_order_relaxed);
  restart_is_due.store(false, std::memory_order_relaxed);
  not_before_ns.store(0, std::memory_order_relaxed);
  loaded_process = os::process_id();
  helper.store(Helper::kNone, std::memory_order_release);
  slow_frees_in_child.store(0, std::memory_order_relaxed);
  heap::on_slow_free.store(on_slow_free_in_child, std::memory_order_relaxed);
}

}  // namespace seemalloc
