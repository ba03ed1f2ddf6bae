#include "core/api/malloc/fork.h"

#include <pthread.h>

#include <atomic>

#include "core/api/malloc/process.h"
#include "core/api/malloc/services.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/heap/maintenance/heap_fork.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/spans/sampled.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/page_heap/page_heap.h"

// glibc's recursive lock of its list of streams. In a process of several threads, glibc's fork
// takes it after the prepare handlers, and reinitialises it in the child.
extern "C" __attribute__((weak)) void _IO_list_lock();
extern "C" __attribute__((weak)) void _IO_list_unlock();
extern "C" __attribute__((weak)) void _IO_list_resetlock();
// glibc's (2.32): not 0 while glibc knows of no other thread.
extern "C" __attribute__((weak)) char __libc_single_threaded;

namespace seemalloc {

namespace {

// The state of the calling thread's fork.
struct Fork {
  unsigned depth = 0;     // nested forks; 0: none
  bool in_child = false;  // this is the child of this fork, or of a nested one
  bool holds_streams = false;
  os::MaskBefore signals_before;
};
constinit thread_local Fork now;

// The number of forks in progress; negative: the number of registrations. Changed by compare and
// exchange only: from 0, or from a number of the same sign.
std::atomic<int> fork_turn_count{0};
// The kind of turn in which the calling thread is counted, or 0.
constinit thread_local int own_turn_kind = 0;

bool enter_turn(int kind) {
  constexpr uint64_t kPauseNs = 100000;
  constexpr unsigned kMaxPauses = 10000;
  for (unsigned pauses = 0;; pauses++) {
    int now_inside = fork_turn_count.load(std::memory_order_relaxed);
    while (now_inside == 0 || (now_inside > 0) == (kind > 0)) {
      if (fork_turn_count.compare_exchange_weak(
              now_inside, now_inside + kind, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    if (pauses == kMaxPauses || !os::can_pause()) return false;
    os::pause(kPauseNs);
  }
}

bool has_one_thread() { return &__libc_single_threaded != nullptr && __libc_single_threaded != 0; }

// A child of a process with one thread keeps the lock's state: the code that a signal handler has
// interrupted (fflush) may hold it.
void lock_streams() {
  now.holds_streams = _IO_list_lock != nullptr && _IO_list_unlock != nullptr &&
                      _IO_list_resetlock != nullptr && !has_one_thread();
  if (now.holds_streams) _IO_list_lock();
}

// In the child glibc has already reinitialised the lock; before 2.34, not if the process had one
// thread. Doing so again does no harm, but unlocking might.
void unlock_streams(bool in_child) {
  if (!now.holds_streams) return;
  now.holds_streams = false;
  in_child ? _IO_list_resetlock() : _IO_list_unlock();
}

void before_fork() {
  os::MaskBefore before =
      os::change_signal_mask(SIG_BLOCK, os::all_signals() & ~os::kSynchronousSignals);
  if (now.depth++ != 0) return;
  now.signals_before = before;
  now.in_child = false;
  lock_streams();
  fork_interrupted_critical_section = locks_held != 0;
  lock_options_for_fork();
  heap::lock_for_fork();
  heap::lock_sampled_for_fork();
  lock_sampling_for_fork();
  pages::lock_for_fork();
  fork_holds_every_lock = true;
}

void unlock_all(bool in_child) {
  fork_holds_every_lock = false;
  pages::unlock_after_fork(in_child);
  unlock_sampling_after_fork(in_child);
  heap::unlock_sampled_after_fork();
  in_child ? heap::unlock_after_fork_child() : heap::unlock_after_fork_parent();
  if (in_child) {
    os::release_scratch_in_child();
    os::forget_ids_in_child();
    os::reset_counters_in_child();
    reset_lock_waits_in_child();
  }
  unlock_options_after_fork();
}

void after_fork(bool in_child) {
  if (now.depth == 0) return;  // the handlers were installed during this fork
  now.in_child |= in_child;
  if (--now.depth != 0) return;
  in_child = now.in_child;
  unlock_all(in_child);
  if (in_child) {
    heap::reset_pressure_in_child();
    reset_dumps_in_child();
    forget_process_in_child();
    // The other threads do not exist here.
    fork_turn_count.store(own_turn_kind, std::memory_order_relaxed);
    reset_helper_in_child();
  }
  fork_interrupted_critical_section = false;
  unlock_streams(in_child);
  os::restore_signal_mask(now.signals_before);
}

void after_fork_in_parent() { after_fork(false); }
void after_fork_in_child() { after_fork(true); }

}  // namespace

ForkExclusion::ForkExclusion(Kind kind)
    : signals_before_(
          os::change_signal_mask(SIG_BLOCK, os::all_signals() & ~os::kSynchronousSignals)),
      is_counted_(own_turn_kind == 0 && enter_turn(kind)) {
  if (is_counted_) own_turn_kind = kind;
}

ForkExclusion::~ForkExclusion() {
  if (is_counted_) fork_turn_count.fetch_sub(own_turn_kind, std::memory_order_release);
  if (is_counted_) own_turn_kind = 0;
  os::restore_signal_mask(signals_before_);
}

void install_fork_handlers() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace seemalloc
