// Access to the state: the handler writes to the session that `active` points to, in any thread;
// everything else is done under `lock`, which no handler takes. A session stays mapped until no
// handler can have seen it.
#include <errno.h>
#include <signal.h>

#include <atomic>

#include "core/api/cpu/cpu_profiler.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/random.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/process.h"
#include "core/os/process/sandbox.h"
#include "core/os/process/socket.h"
#include "core/os/process/threads.h"
#include "core/os/runtime/lock.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/cpu/cpu_profile.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc {

namespace {

using os::ThreadClock;

// The time between two passes of the helper thread: a thread that ends sooner, and never allocates,
// is missed.
constexpr uint64_t kScanIntervalNs = 20 * kMillisecondNs;
constexpr uint64_t kShortScanIntervalNs = 5 * kMillisecondNs;
// A pass takes at most this part of the time: listing 10,000 threads takes 10 ms.
constexpr uint64_t kMinIdleToScanRatio = 50;

struct ThreadTimer {
  int thread;
  int timer;
  uint32_t number;  // in the session's names; 0: there was no number left
  bool seen;        // by the current pass
};

// In zeroed memory of its own.
struct Session {
  profile::CpuSampleStore store;
  // Carried by its timers' signals, with the thread's number: signals with another token are from a
  // session that has ended.
  uint32_t token;
  std::atomic<uint64_t> interrupts;
  uint64_t number;
  // ---- under `lock` ----
  profile::CpuProfile sums;
  profile::ThreadTable names;
  profile::GrowArray<ThreadTimer> timers;  // by thread, ascending
  ThreadClock clock;
  uint64_t period_ns;
  // Monotonic; ends_ns 0: no time limit, ended_ns 0: it is running.
  uint64_t began_ns, ends_ns, ended_ns;
  uint64_t cpu_before_ns, cpu_ns;  // the process's CPU time at the start, and used
  uint64_t scan_took_ns;
  uint64_t threads, threads_without_timer;
  uint64_t random;
  const char* ended_by;
};

Lock lock;
Session* session = nullptr;  // the running one, or the last one
std::atomic<Session*> active{nullptr};
std::atomic<unsigned> in_handler{0};
std::atomic<uint64_t> sessions{0};
std::atomic<ThreadClock> session_clock{ThreadClock::kCpu};
std::atomic<bool> keeps_stacks{false};  // there is a session, which may have ended

// ---- the handler ----

void on_interrupt(int, siginfo_t* info, void* context) {
  int saved_errno = errno;
  // First counts itself in, then loads the session: the thread that ends a session clears `active`
  // and then waits until no handler is counted.
  in_handler.fetch_add(1, std::memory_order_seq_cst);
  Session* mine = active.load(std::memory_order_seq_cst);
  uintptr_t carried = reinterpret_cast<uintptr_t>(info->si_value.sival_ptr);
  if (mine != nullptr && info->si_code == SI_TIMER && carried >> 32 == mine->token) {
    mine->interrupts.fetch_add(1, std::memory_order_relaxed);
    profile::Stack stack;
    profile::capture_stack_from(context, &stack, profile::chosen_stack_depth());
    // The kernel checks these timers at its own ticks, and while the thread is in a system call the
    // signal is delayed: all that time was spent here.
    uint64_t missed = info->si_overrun > 0 ? static_cast<uint64_t>(info->si_overrun) : 0;
    mine->store.add(stack, static_cast<uint32_t>(carried), 1 + missed);
  }
  in_handler.fetch_sub(1, std::memory_order_seq_cst);
  errno = saved_errno;
}

bool handler_is_ours(const os::SignalAction& action) {
  return (action.flags & SA_SIGINFO) != 0 &&
         action.handler == reinterpret_cast<void*>(on_interrupt);
}

// Our handler stays once it is installed: signals still in flight when a profile ends would kill
// the process.
CpuStartResult take_signal() {
  os::SignalAction now;
  if (!os::get_action(SIGPROF, &now)) return CpuStartResult::kSignalInUse;
  bool free = (now.flags & SA_SIGINFO) == 0 && (now.is_default() || now.is_ignored());
  if (!free && !handler_is_ours(now)) return CpuStartResult::kSignalInUse;
  if (os::has_profiling_timer()) return CpuStartResult::kTimerInUse;
  if (!free) return CpuStartResult::kStarted;
  os::SignalAction ours{reinterpret_cast<void*>(on_interrupt), SA_SIGINFO | SA_RESTART | SA_ONSTACK,
                        os::all_signals()};
  return os::set_action(SIGPROF, ours) ? CpuStartResult::kStarted : CpuStartResult::kSignalInUse;
}

bool handler_is_still_installed() {
  os::SignalAction now;
  return os::get_action(SIGPROF, &now) && handler_is_ours(now);
}

// ---- sessions, under `lock` ----

bool is_running() { return session != nullptr && session->ended_ns == 0; }

size_t session_bytes() { return round_up(sizeof(Session), os::page_bytes()); }

// False when a handler does not finish.
bool wait_for_handlers() {
  constexpr unsigned kPatience = 200;
  for (unsigned tries = 0; in_handler.load(std::memory_order_seq_cst) != 0; tries++) {
    if (tries == kPatience) return false;
    os::pause(kMillisecondNs);
  }
  return true;
}

void remove_last_session() {
  Session* old = session;
  session = nullptr;
  keeps_stacks.store(false, std::memory_order_relaxed);
  if (old == nullptr) return;
  old->sums.~CpuProfile();
  old->timers.~GrowArray();
  // A handler that never returns (its thread was cancelled in it) may still use it: then it stays
  // mapped.
  if (wait_for_handlers()) os::unmap(old, session_bytes(), os::Reason::kReport);
}

size_t index_of_thread(int thread) {
  size_t low = 0, high = session->timers.size();
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (session->timers[middle].thread < thread) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool is_at(size_t place, int thread) {
  return place < session->timers.size() && session->timers[place].thread == thread;
}

// The first interrupt comes at a random time of the first period: so a short thread is sampled with
// the right probability.
uint64_t first_period_ns() {
  session->random = session->random * 0x5851F42D4C957F2D + 0x14057B7EF767814F;
  return 1 + (session->random >> 33) % session->period_ns;
}

bool insert_timer(size_t place, ThreadTimer timer) {
  profile::GrowArray<ThreadTimer>& timers = session->timers;
  if (!timers.reserve(timers.size() + 1)) return false;
  timers.push(timer);
  for (size_t i = timers.size() - 1; i > place; i--) timers[i] = timers[i - 1];
  timers[place] = timer;
  return true;
}

void thread_has_ended(const ThreadTimer& of) {
  if (of.timer >= 0) os::delete_timer(of.timer);
  if (of.number != 0) session->names.mark_exited(of.number);
}

void remove_timer(size_t place) {
  profile::GrowArray<ThreadTimer>& timers = session->timers;
  thread_has_ended(timers[place]);
  for (size_t i = place + 1; i < timers.size(); i++) timers[i - 1] = timers[i];
  timers.set_size(timers.size() - 1);
}

// False when samples have remained in the store.
bool collect() {
  return session->store.take_all(
      [](const profile::CpuSample& sample) { session->sums.add(sample); });
}

// The number by which samples refer to their thread. 0 when all numbers have samples.
uint32_t number_of(int thread) {
  char name[os::kThreadNameBytes] = {};
  thread == os::thread_id() ? os::own_thread_name(name) : os::read_thread_name(thread, name);
  uint32_t number = session->names.add(static_cast<uint32_t>(thread), name);
  if (number != 0 || !session->names.begin_recycling()) return number;
  bool all = collect();
  profile::ThreadTable::SlotSet marks;
  for (uint32_t n = 1; !all && n <= profile::ThreadTable::kMaxThreads; n++) marks.set(n);
  for (size_t i = 0; i < session->sums.size(); i++) {
    if (session->sums[i].thread != 0)
      marks.set(profile::ThreadTable::slot_of(session->sums[i].thread));
  }
  session->names.recycle(marks);
  return session->names.add(static_cast<uint32_t>(thread), name);
}

// A thread whose timer is refused is recorded without one, so that it is counted once.
void add_thread(size_t place, int thread) {
  uint32_t number = number_of(thread);
  void* carried = reinterpret_cast<void*>(uintptr_t{session->token} << 32 | number);
  int timer = os::make_thread_timer(thread, session->clock, SIGPROF, carried);
  if (timer >= 0 && !os::set_timer(timer, first_period_ns(), session->period_ns)) {
    os::delete_timer(timer);
    timer = -1;
  }
  constexpr int kEnded = -22;  // -EINVAL
  if (timer == kEnded) return;
  if (timer < 0) {
    session->threads_without_timer++;
  } else {
    session->threads++;
  }
  if (!insert_timer(place, {thread, timer < 0 ? -1 : timer, number, true}) && timer >= 0)
    os::delete_timer(timer);
}

void note_thread(void*, int thread) {
  size_t place = index_of_thread(thread);
  if (is_at(place, thread)) {
    session->timers[place].seen = true;
  } else {
    add_thread(place, thread);
  }
}

// Gives timers to new threads and deletes those of ended threads: the kernel keeps a dead thread's
// timer.
void scan_threads() {
  uint64_t began = os::monotonic_ns();
  profile::GrowArray<ThreadTimer>& timers = session->timers;
  for (size_t i = 0; i < timers.size(); i++) timers[i].seen = false;
  if (!os::for_each_thread(note_thread, nullptr)) return;
  size_t kept = 0;
  for (size_t i = 0; i < timers.size(); i++) {
    if (timers[i].seen) {
      timers[kept++] = timers[i];
    } else {
      thread_has_ended(timers[i]);
    }
  }
  timers.set_size(kept);
  session->scan_took_ns = os::monotonic_ns() - began;
}

void end_session(const char* why) {
  active.store(nullptr, std::memory_order_seq_cst);
  profile::GrowArray<ThreadTimer>& timers = session->timers;
  for (size_t i = 0; i < timers.size(); i++) {
    if (timers[i].timer >= 0) os::delete_timer(timers[i].timer);
  }
  timers.set_size(0);
  session->cpu_ns = os::process_cpu_ns() - session->cpu_before_ns;
  session->ended_ns = os::monotonic_ns();
  session->names.refresh();
  session->ended_by = why;
  wait_for_handlers();
  collect();
}

CpuStartResult begin_session(const CpuRequest& request) {
  remove_last_session();
  Session* fresh = static_cast<Session*>(os::map(session_bytes(), os::Reason::kReport));
  if (fresh == nullptr) return CpuStartResult::kNoMemory;
  fresh->number = sessions.fetch_add(1, std::memory_order_relaxed) + 1;
  fresh->token = static_cast<uint32_t>(0x5EE0000 + fresh->number);
  fresh->clock = request.wall ? ThreadClock::kWall : ThreadClock::kCpu;
  fresh->period_ns = kSecondNs / request.frequency;
  fresh->random = os::random_bits();
  fresh->began_ns = os::monotonic_ns();
  fresh->ends_ns = request.max_duration_ns != 0 ? fresh->began_ns + request.max_duration_ns : 0;
  fresh->cpu_before_ns = request.whole_run ? 0 : os::process_cpu_ns();
  session = fresh;
  keeps_stacks.store(true, std::memory_order_relaxed);
  session_clock.store(fresh->clock, std::memory_order_relaxed);
  active.store(fresh, std::memory_order_seq_cst);
  scan_threads();
  // No /proc: at least this thread.
  if (session->threads == 0) add_thread(index_of_thread(os::thread_id()), os::thread_id());
  if (session->threads != 0) return CpuStartResult::kStarted;
  end_session(nullptr);
  return CpuStartResult::kNoTimers;
}

// ---- called by the helper thread ----

// All signals are blocked in the helper thread. It consumes its own SIGPROF here, so that its work
// is in the profile, too. A signal that was sent to the process is sent again.
void count_own_work() {
  siginfo_t info{};
  if (!os::take_signal(SIGPROF, &info)) return;
  if (info.si_code != SI_TIMER) return os::signal_process(SIGPROF);
  uintptr_t carried = reinterpret_cast<uintptr_t>(info.si_value.sival_ptr);
  if (carried >> 32 != session->token) return;
  profile::Stack stack;
  profile::capture_stack(&stack, profile::chosen_stack_depth());
  session->interrupts.fetch_add(1, std::memory_order_relaxed);
  uint64_t missed = info.si_overrun > 0 ? static_cast<uint64_t>(info.si_overrun) : 0;
  session->store.add(stack, static_cast<uint32_t>(carried), 1 + missed);
}

void warn_of_end(const char* why) {
  FixedText<160> line;
  line << "CPU profile ended: " << why;
  warn(line.c_str());
}

// Null while the profile may continue.
const char* reason_to_end() {
  if (!handler_is_still_installed()) return "the program has set a handler of its own for SIGPROF";
  if (os::has_profiling_timer()) return "the program has set ITIMER_PROF";
  return nullptr;
}

uint64_t next_scan_ns(uint64_t now_ns) {
  uint64_t wait = kScanIntervalNs;
  if (session->scan_took_ns * kMinIdleToScanRatio > wait)
    wait = session->scan_took_ns * kMinIdleToScanRatio;
  if (session->store.ring_is_half_full()) wait = kShortScanIntervalNs;
  uint64_t left = session->ends_ns != 0 ? session->ends_ns - now_ns : wait;
  return left < wait ? left : wait;
}

uint64_t tick_locked() {
  if (!is_running()) return UINT64_MAX;
  uint64_t now = os::monotonic_ns();
  const char* why = reason_to_end();
  bool due = session->ends_ns != 0 && now >= session->ends_ns;
  if (why != nullptr) warn_of_end(why);
  if (why != nullptr || due) {
    end_session(why);
    return UINT64_MAX;
  }
  uint64_t wait = next_scan_ns(now);
  scan_threads();
  session->store.take_evicted([](const profile::CpuSample& sample) { session->sums.add(sample); });
  return wait;
}

}  // namespace

CpuRequest requested_cpu_profile() {
  CpuRequest request{static_cast<unsigned>(options::get(options::Id::cpu_frequency))};
  request.wall =
      options::get(options::Id::cpu_clock) == static_cast<uint64_t>(options::CpuClock::kWall);
  return request;
}

CpuStartResult start_cpu_profile(const CpuRequest& request, uint64_t* number) {
  DCHECK(request.frequency >= 1 && request.frequency <= kMaxCpuFrequency);
  LockGuard guard(lock);
  if (is_running()) return CpuStartResult::kRunning;
  if (os::calls_are_limited()) return CpuStartResult::kNoTimers;
  CpuStartResult result = take_signal();
  if (result == CpuStartResult::kStarted) result = begin_session(request);
  if (result == CpuStartResult::kStarted && number != nullptr) *number = session->number;
  return result;
}

const char* describe(CpuStartResult result) {
  switch (result) {
    case CpuStartResult::kStarted: return "started";
    case CpuStartResult::kUnavailable: return "this is the library without a profiler (minimal)";
    case CpuStartResult::kRunning: return "a CPU profile is running already";
    case CpuStartResult::kSignalInUse: return "the program handles SIGPROF itself";
    case CpuStartResult::kTimerInUse:
      return "the program uses the profiling timer itself (ITIMER_PROF)";
    case CpuStartResult::kNoMemory: return "no memory for the profile";
    case CpuStartResult::kNoTimers:
      return "the kernel refused the timers (ulimit -i limits them; a sandbox has none)";
  }
  return "";
}

bool stop_cpu_profile() {
  LockGuard guard(lock);
  if (!is_running()) return false;
  end_session(nullptr);
  return true;
}

namespace {

profile::CpuProfileStats thread_facts_locked() {
  if (session == nullptr)
    return {.clock = ThreadClock::kCpu, .period_ns = kSecondNs / requested_cpu_profile().frequency};
  const Session& s = *session;
  bool running = is_running();
  return {.clock = s.clock,
          .period_ns = s.period_ns,
          .duration_ns = (running ? os::monotonic_ns() : s.ended_ns) - s.began_ns,
          .interrupts = s.interrupts.load(std::memory_order_relaxed),
          .evictions = s.store.evictions(),
          .lost = s.store.lost(),
          .lost_ticks = s.store.lost_ticks(),
          .process_cpu_ns = running ? os::process_cpu_ns() - s.cpu_before_ns : s.cpu_ns,
          .threads = s.threads,
          .threads_without_timer = s.threads_without_timer,
          .end_reason = s.ended_by};
}

bool profile_locked(ProfileBytes* out) {
  if (is_running()) {
    collect();
    session->names.refresh();
  }
  profile::CpuProfile nothing;
  profile::Buffer buffer{};
  const profile::CpuProfile& sums = session != nullptr ? session->sums : nothing;
  if (!profile::write_cpu_profile(sums, session != nullptr ? &session->names : nullptr,
                                  thread_facts_locked(), &buffer))
    return false;
  *out = {buffer.data, buffer.bytes, buffer.mapped_bytes};
  return true;
}

}  // namespace

bool cpu_profile(ProfileBytes* out) {
  LockGuard guard(lock);
  return profile_locked(out);
}

CpuCollectResult collect_cpu_profile(uint64_t number, bool end, CollectedCpuProfile* out) {
  LockGuard guard(lock);
  if (session == nullptr || session->number != number) return CpuCollectResult::kReplaced;
  if (end && is_running()) end_session(nullptr);
  if (!profile_locked(&out->profile)) return CpuCollectResult::kNoMemory;
  out->interrupts = session->interrupts.load(std::memory_order_relaxed);
  out->evictions = session->store.evictions();
  return CpuCollectResult::kCollected;
}

CpuReport cpu_report() {
  LockGuard guard(lock);
  if (session == nullptr) return {.available = true};
  return {true, is_running(), session->interrupts.load(std::memory_order_relaxed),
          session->store.evictions()};
}

// Does not wait: it may be called in a handler that has interrupted the holder. The helper's next
// pass finds the thread.
void cpu_profiler_thread_started() {
  if (active.load(std::memory_order_relaxed) == nullptr || !lock.try_lock()) return;
  if (is_running()) {
    int thread = os::thread_id();
    size_t place = index_of_thread(thread);
    // The thread id may have belonged to another thread, which has ended since the last pass.
    bool stale = is_at(place, thread) && session->timers[place].timer >= 0 &&
                 !os::is_timer_set(session->timers[place].timer);
    if (stale) remove_timer(place);
    if (!is_at(place, thread)) add_thread(place, thread);
  }
  lock.unlock();
}

// Waits a little for a pass of the helper thread: this is the last time that the name can be read.
void cpu_profiler_thread_exiting() {
  constexpr uint64_t kPatienceNs = 10 * kMillisecondNs;
  if (active.load(std::memory_order_relaxed) == nullptr ||
      !lock.try_lock_for(locks_held == 0 ? kPatienceNs : 0))
    return;
  if (is_running()) {
    size_t place = index_of_thread(os::thread_id());
    if (is_at(place, os::thread_id())) {
      if (session->timers[place].number != 0)
        session->names.thread_exits(session->timers[place].number);
      remove_timer(place);
    }
  }
  lock.unlock();
}

namespace {
bool any_cpu_stack_in(const profile::RelocatedCode& code) {
  if (is_running() && !collect()) profile::count_unmoved_stacks();
  return session != nullptr && session->sums.any_in(code);
}
void move_cpu_stacks(const profile::RelocatedCode& code) {
  if (session != nullptr) session->sums.relocate_code(code);
}
constexpr profile::ExternalStacks kCpuStacks{any_cpu_stack_in, move_cpu_stacks};
}  // namespace

const profile::ExternalStacks* lock_cpu_stacks() {
  constexpr uint64_t kPatienceNs = 20 * kMillisecondNs;
  if (!keeps_stacks.load(std::memory_order_relaxed)) return nullptr;
  if (lock.try_lock_for(locks_held == 0 ? kPatienceNs : 0)) return &kCpuStacks;
  profile::count_unmoved_stacks();
  return nullptr;
}
void unlock_cpu_stacks() { lock.unlock(); }

uint64_t tick_cpu_profiler() {
  if (active.load(std::memory_order_relaxed) == nullptr) return UINT64_MAX;
  LockGuard guard(lock);
  if (is_running() && session->clock == ThreadClock::kCpu) count_own_work();
  return tick_locked();
}

bool reset_cpu_profile_in_child() {
  bool was_running = active.exchange(nullptr, std::memory_order_relaxed) != nullptr;
  in_handler.store(0, std::memory_order_relaxed);
  // If the fork interrupted this thread while it changed the session, it continues with that. To
  // all other threads the session has ended.
  if (fork_interrupted_critical_section) {
    lock.reset();
    if (is_running()) session->ended_ns = os::monotonic_ns();
    return was_running;
  }
  // If another thread was changing it, its mappings are unknown: it stays, shared with the parent.
  if (lock.try_lock()) {
    remove_last_session();
    lock.unlock();
  }
  session = nullptr;
  keeps_stacks.store(false, std::memory_order_relaxed);
  lock.reset();
  return was_running;
}

}  // namespace seemalloc
