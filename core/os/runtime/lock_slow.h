// The slow paths of the locks in lock.h: waiting, waking and fork. Included by lock.cc and by tests
// that run the locks on another machine than RealMachine.
#pragma once

#include "core/base/counters.h"
#include "core/base/units.h"
#include "core/os/runtime/lock.h"

namespace seemalloc {

struct alignas(kCacheLineBytes) WaitCounters {
  std::atomic<uint64_t> short_waits, waits, wait_ns;

  void count_short() { short_waits.fetch_add(1, std::memory_order_relaxed); }
  void count_long(uint64_t duration_ns) {
    waits.fetch_add(1, std::memory_order_relaxed);
    wait_ns.fetch_add(duration_ns, std::memory_order_relaxed);
  }
  LockWaits read() const {
    return {short_waits.load(std::memory_order_relaxed), waits.load(std::memory_order_relaxed),
            wait_ns.load(std::memory_order_relaxed)};
  }
  void forget() { set_to_zero(short_waits, waits, wait_ns); }
};

extern WaitCounters shared_waits, owner_waits;

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

// Tries a few times, for a lock that will be free soon.
template <typename Machine, typename F>
bool acquire_spinning(F acquire) {
  for (int i = 0; i < Machine::kSpinsBeforeSleep; i++) {
    if (acquire()) return true;
    spin_pause();
  }
  return false;
}

// Tries for two seconds, or only a few times if this thread itself may be the holder. On a busy
// machine a holder may not run for some tenths of a second; a child whose fork gave up would wait
// for it forever. Spins between the pauses: a thread that takes the lock again and again leaves it
// free for moments only.
template <typename Machine, typename F>
bool acquire_with_timeout(bool interrupted, F acquire) {
  constexpr int kTries = 20000, kTriesInterrupted = 3;
  constexpr uint64_t kPauseNs = 100000;
  for (int i = 0; i < (interrupted ? kTriesInterrupted : kTries); i++) {
    if (acquire_spinning<Machine>(acquire)) return true;
    Machine::pause(kPauseNs);
  }
  return false;
}

template <typename Machine>
void BasicLockWord<Machine>::lock_for_fork() {
  held_by_fork_ = acquire_with_timeout<Machine>(fork_interrupted_critical_section,
                                                [this] { return acquire(); });
}

template <typename Machine>
void BasicLock<Machine>::unlock_after_fork() {
  if (!this->held_by_fork_) return;
  this->held_by_fork_ = false;
  unlock();
}

template <typename Machine>
void BasicOwnerLock<Machine>::unlock_after_fork() {
  if (!this->held_by_fork_) return;
  this->held_by_fork_ = false;
  unlock();
}

template <typename Machine>
void BasicLockWord<Machine>::wait(WaitCounters& waits, uint64_t recheck_ns) {
  auto acquire_if_free = [&] { return state_.load(std::memory_order_relaxed) == 0 && try_lock(); };
  if (acquire_spinning<Machine>(acquire_if_free)) return waits.count_short();
  uint64_t begin = Machine::monotonic_ns();
  count_held(+1);
  constexpr uint64_t kWithoutFutexNs = 100000;
  // After this many waits in vain the futex call may have been refused with an error that is
  // temporary otherwise (EINTR, EAGAIN).
  constexpr unsigned kMaxWaits = 100;
  unsigned waits_in_vain = 0;
  while (state_.exchange(2, std::memory_order_acquire) != 0) {
    bool waited = Machine::futex_wait(&state_, 2, recheck_ns);
    if (!waited || ++waits_in_vain > kMaxWaits) Machine::pause(kWithoutFutexNs);
  }
  waits.count_long(Machine::monotonic_ns() - begin);
}

template <typename Machine>
void BasicLockWord<Machine>::wake() {
  Machine::futex_wake(&state_, 1);
}

template <typename Machine>
void BasicLock<Machine>::lock_slow() {
  this->wait(shared_waits, 0);
}
template <typename Machine>
void BasicOwnerLock<Machine>::lock_slow() {
  this->wait(owner_waits, 10 * kMillisecondNs);
}

template <typename Machine>
bool BasicLock<Machine>::try_lock_for(uint64_t ns) {
  constexpr uint64_t kStepNs = kMillisecondNs;
  for (uint64_t waited = 0; !this->try_lock(); waited += kStepNs) {
    if (waited >= ns) return false;
    Machine::pause(kStepNs);
  }
  return true;
}

}  // namespace seemalloc
