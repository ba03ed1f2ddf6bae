#include "core/api/helper/helper.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/asking_signal.h"
#include "core/api/dumps/auto_dump.h"
#include "core/api/dumps/cpu_runs.h"
#include "core/api/dumps/dump.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/malloc/process.h"
#include "core/api/malloc/slow_path.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/control.h"
#include "core/api/service/exit_files.h"
#include "core/api/service/socket_place.h"
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
#include "core/os/runtime/scratch.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/collapse.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/span/backing.h"

// A variable of glibc 2.32 and later: not 0 while it knows of no other thread.
extern "C" __attribute__((weak)) char __libc_single_threaded;

namespace seemalloc {

namespace {

// Untouched stack costs address space only.
constexpr size_t kStackBytes = 256 * KiB;
constexpr uint64_t kIdle_ns = 500 * kMillisecond_ns;
constexpr uint64_t kShortest_ns = 50 * kMillisecond_ns;
// The lag of the coarse clock. It is added to the wait: a helper thread that wakes up too early
// would have to sleep once more.
constexpr uint64_t kClockStep_ns = 10 * kMillisecond_ns;

// kRefused also stands for a helper that has ended before a filter for all threads.
enum class Helper { kNone, kRunning, kRefused };

std::atomic<Helper> helper{Helper::kNone};
enum class Leave { kNo, kBeforeFilter, kForAMoment };
std::atomic<Leave> leave{Leave::kNo};  // why the helper thread must end
constinit os::BareThread thread;
// Number of calls in progress between helper_steps_aside() and helper_comes_back(). Meanwhile no
// helper thread starts.
std::atomic<unsigned> calls_apart{0};
std::atomic<bool> is_to_come_back{false};  // when these calls are over
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
std::atomic<unsigned> frees_in_child{0};

uint64_t next_wait_ns() {
  constexpr uint64_t kBetweenSlices_ns = 20 * kMillisecond_ns;
  uint64_t wait = pages::next_tick_in_ns();
  wait = kClockStep_ns + (wait < kShortest_ns ? kShortest_ns : wait < kIdle_ns ? wait : kIdle_ns);
  if (heap::holes_wait()) wait = kBetweenSlices_ns;
  uint64_t dump = next_dump_tick_in_ns();
  if (dump < wait) wait = dump;
  pages::helper_ticks_in(wait);
  return wait;
}

// Up to half a second late.
void set_baseline_if_due() {
  static bool done = false;
  uint64_t after = options::get(options::Id::baseline_after);
  if (done || after == 0 || uptime_ns() < after * kMillisecond_ns) return;
  set_profile_baseline();
  done = true;
}

// When a stall report is closed, the kernel waits for all processors, which delays the exit of a
// process by 8 to 20 ms. So a process that runs for less than this time opens no stall report;
// until then only the memory limits are checked.
constexpr uint64_t kWatchStallsAfter_ns = 5 * kSecond_ns;
// The report also takes a descriptor. A small heap has little to return when the machine is short
// of memory.
constexpr size_t kWatchStallsFrom_bytes = 32 * MiB;

// Runs in any thread, so it only requests the dump.
void on_dump_signal(int) { ask_for_dump(DumpReason::kSignal); }

int dump_signal() { return static_cast<int>(options::get(options::Id::dump_signal)); }

bool is_to_end(Leave why) {
  if (!os::can_pause()) return true;  // all ways to wait are refused: slow paths purge
  return exiting.load(std::memory_order_relaxed) || why != Leave::kNo ||
         os::all_threads_are_limited();
}

// Called if a filter for all threads is about to be installed, or if the process must have one
// thread for a moment. Closes all descriptors while that is allowed. From here on slow paths do the
// work of the helper thread. In the second case they may start another one later, even if the
// caller of end_helper() has stopped waiting.
void leave_early(Leave why) {
  if (exiting.load(std::memory_order_relaxed)) return;
  if (why != Leave::kForAMoment) {
    end_cpu_run();
    stop_cpu_profile();  // one started by another caller: its timers and signals
  }
  control.forget();
  remove_socket();
  stalls.forget();
  wake_up.forget();
  heap::hole_helper.store(nullptr, std::memory_order_relaxed);
  helper.store(why == Leave::kForAMoment ? Helper::kNone : Helper::kRefused,
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
  uint64_t watch_stalls_from_ns = os::monotonic_ns() + kWatchStallsAfter_ns;
  os::name_thread("seemalloc");
  heap::hole_helper.store(&heap::thread_cache, std::memory_order_relaxed);
  Leave why;
  while (why = leave.load(std::memory_order_acquire), !is_to_end(why)) {
    heap::tick(true);
    if (dump_signal() != 0 && takes_blocked_signal(dump_signal(), on_dump_signal))
      on_dump_signal(dump_signal());
    tick_dumps();
    set_baseline_if_due();
    // Opens a descriptor only if it is needed. At the beginning of a CPU profile idle threads are
    // noticed half a second late.
    wake_up.keep_open(dumps_want_helper() || cpu_signal() != 0 || cpu_profile_runs);
    control.keep_open();
    if (have_credentials_changed()) {
      why = Leave::kForAMoment;
      break;
    }
    // The exiting thread removes the socket once; one made since is ours to remove.
    if (exiting.load(std::memory_order_seq_cst)) remove_socket();
    uint64_t watch_ns = heap::watch_pressure(stalls.take_report());
    bool is_worth_it = pages::backing.bytes() >= kWatchStallsFrom_bytes;
    if (is_worth_it && os::monotonic_ns() >= watch_stalls_from_ns) stalls.keep_open();
    follow_cpu_signal();
    if (cpu_run_in_child_is_due()) begin_cpu_run_in_child();
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
  leave_early(why);
  return status;
}

SEEMALLOC_COLD void start_helper() {
  if (os::inner_calls || os::coarse_monotonic_ns() < not_before_ns.load(std::memory_order_relaxed))
    return;
  Helper none = Helper::kNone;
  if (!helper.compare_exchange_strong(none, Helper::kRunning, std::memory_order_seq_cst)) return;
  // In the child of vfork a thread would be the parent's. The load of calls_apart pairs with
  // helper_steps_aside(): either its caller has seen this helper, or this load sees its call.
  constexpr uint64_t kLongestEnd_ns = 20 * kMillisecond_ns;
  thread.wait_for_end(kLongestEnd_ns);
  if (os::process_id() != loaded_process || calls_apart.load(std::memory_order_seq_cst) != 0 ||
      thread.id() != 0) {
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
  if (child_waits) begin_cpu_run_in_child();
  if (options::get(options::Id::helper) != 0) start_helper();
}

void start_helper_for_work() {
  if (options::get(options::Id::helper) != 0 && process_started()) start_helper();
}

void start_helper_at_load() {
  loaded_process = os::process_id();
  if (os::is_limited()) return;
  if (dump_signal() != 0 && !take_asking_signal(dump_signal(), on_dump_signal)) {
    warn("dump_signal: the signal is in use or cannot be caught; ignored");
  }
  remember_runtime_folder(value_in(environ, "XDG_RUNTIME_DIR"));
  bool wants_cpu = start_cpu_run();
  if (options::get(options::Id::helper) == 0) return;
  if (dumps_want_helper() || wants_cpu || options::get(options::Id::at_start) != 0) start_helper();
}

namespace {
void say_that_nothing_is_written() {
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
  if (idle || os::is_limited()) return;
  if (os::process_id() != loaded_process) return;
  exiting.store(true, std::memory_order_seq_cst);
  remove_socket();
  // A signal handler that has interrupted us may end the process, although it should not. The
  // interrupted code holds locks.
  if (!may_lock()) return say_that_nothing_is_written();
  end_cpu_run();
  dump_at_exit();
}

bool helper_runs() { return helper.load(std::memory_order_acquire) == Helper::kRunning; }

void wake_helper() {
  int id = thread.id();
  if (id > 0) wake_up.wake(os::process_id(), id);
}

namespace {
// Does nothing in a child of vfork, where the helper thread belongs to the parent. Waits until the
// helper thread has made its last system calls, but not for ever; the limit is shorter in a signal
// handler, which may have interrupted a critical section that the helper thread waits for.
void end_helper(Leave why) {
  constexpr uint64_t kStep_ns = kMillisecond_ns;
  constexpr unsigned kMostSteps = 2000, kMostStepsInHandler = 20;
  if (!helper_runs() || os::is_helper_thread() || os::process_id() != loaded_process) return;
  leave.store(why, std::memory_order_release);
  unsigned most = may_lock() ? kMostSteps : kMostStepsInHandler;
  for (unsigned step = 0; step < most && (helper_runs() || thread.id() != 0); step++) {
    control.interrupt();
    wake_helper();
    thread.id() != 0 ? thread.wait_for_end(kStep_ns) : os::pause(kStep_ns);
  }
  leave.store(Leave::kNo, std::memory_order_release);
}
}  // namespace

void end_helper_before_filter() { end_helper(Leave::kBeforeFilter); }

void filter_did_not_come() {
  Helper refused = Helper::kRefused;
  helper.compare_exchange_strong(refused, Helper::kNone, std::memory_order_acq_rel);
}

bool helper_is_only_other_thread() {
  return helper_runs() && os::process_id() == loaded_process && os::thread_count() <= 2;
}

// Calls of several threads may overlap: no helper thread runs until the last of them is over.
bool helper_steps_aside() {
  if (os::is_limited() || os::is_helper_thread() || os::process_id() != loaded_process)
    return false;
  calls_apart.fetch_add(1, std::memory_order_seq_cst);
  // Pairs with start_helper().
  if (helper.load(std::memory_order_seq_cst) != Helper::kRunning) return true;
  end_helper(Leave::kForAMoment);
  is_to_come_back.store(true, std::memory_order_relaxed);
  return true;
}

namespace {
// A program that gives up its privileges makes dozens of such calls, and may be idle afterwards. A
// program that changes them very frequently pays for at most a hundred starts per second: beyond
// that, slow paths do the work of the helper thread for a second, and start it afterwards.
bool comes_back_too_often(uint64_t now_ns) {
  constexpr unsigned kMostReturns = 100;
  if (now_ns - returns_since_ns.load(std::memory_order_relaxed) > kSecond_ns) {
    returns_since_ns.store(now_ns, std::memory_order_relaxed);
    returns.store(0, std::memory_order_relaxed);
  }
  return returns.fetch_add(1, std::memory_order_relaxed) >= kMostReturns;
}
}  // namespace

void helper_comes_back(uint64_t pause_ns) {
  // 0: this process was forked in the middle of the call.
  unsigned calls = calls_apart.load(std::memory_order_relaxed);
  while (calls != 0 &&
         !calls_apart.compare_exchange_weak(calls, calls - 1, std::memory_order_seq_cst)) {
  }
  if (calls != 1 || !is_to_come_back.exchange(false, std::memory_order_relaxed)) return;
  uint64_t now_ns = os::coarse_monotonic_ns();
  if (comes_back_too_often(now_ns)) pause_ns = kSecond_ns;
  if (pause_ns != 0) not_before_ns.store(now_ns + pause_ns, std::memory_order_relaxed);
  start_helper();
}

namespace {
// Called in a child of fork that frees inherited blocks and allocates nothing. A child that frees
// little may be about to call exec.
void child_frees() {
  constexpr unsigned kWorthAHelper = 64;  // spans that have become an eighth free
  if (!may_lock()) return;
  bool worth_it = frees_in_child.fetch_add(1, std::memory_order_relaxed) + 1 >= kWorthAHelper ||
                  pages::anything_cached_huge();
  if (!worth_it) return;
  heap::on_slow_free.store(nullptr, std::memory_order_relaxed);
  start_helper_if_due();
}
}  // namespace

// fork does not wait for the helper thread, which may be sending to a slow client: it holds only
// locks that the fork handlers take, and the state of the control socket, which the child discards
// in any state.
void forget_helper_in_child() {
  control.forget();
  stalls.forget();
  wake_up.forget();
  pages::forget_collapse_in_child();
  forget_trace_in_child();
  forget_cpu_run_in_child(forget_cpu_profile_in_child());
  thread.forget();
  calls_apart.store(0, std::memory_order_relaxed);
  is_to_come_back.store(false, std::memory_order_relaxed);
  not_before_ns.store(0, std::memory_order_relaxed);
  loaded_process = os::process_id();
  helper.store(Helper::kNone, std::memory_order_release);
  frees_in_child.store(0, std::memory_order_relaxed);
  heap::on_slow_free.store(child_frees, std::memory_order_relaxed);
}

}  // namespace seemalloc
