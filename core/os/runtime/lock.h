// Mutexes of one word: a bounded spin, then a futex wait. Constant-initialised, usable before
// constructors run.
//
// Not recursive, not fair. State: 0 free, 1 held, 2 held and a thread may be sleeping. The
// acquiring exchange pairs with the releasing exchange or store in unlock(). fork takes all of
// them: see below.
// The locks are templates over their machine; their slow paths are in lock_slow.h. Checked by
// lock_model_test.cc, which runs this code in every interleaving, and lock_test.cc (threads).
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/real_machine.h"

namespace seemalloc {

// The forking thread holds all of our locks from its prepare handler to its parent or child
// handler. Other fork handlers that run in between may allocate: for this thread, locking is a
// no-op then.
extern constinit thread_local bool fork_holds_every_lock __attribute__((tls_model("initial-exec")));
// Set from the prepare handler to the end of the parent's and child's handler, if fork was called
// in a signal handler that interrupted a critical section.
extern constinit thread_local bool fork_interrupted_critical_section
    __attribute__((tls_model("initial-exec")));
// Number of locks that this thread holds. Nonzero in a signal handler that has interrupted one of
// our critical sections.
extern constinit thread_local unsigned locks_held __attribute__((tls_model("initial-exec")));
// Incremented before a lock is taken and decremented after it is released, so that a signal handler
// never sees too small a number.
SEEMALLOC_ALWAYS_INLINE void count_held(int by) {
  locks_held += static_cast<unsigned>(by);
  __asm__ volatile("" ::: "memory");
}

inline constexpr int kSpinsBeforeSleep = os::RealMachine::kSpinsBeforeSleep;

struct WaitCounters;

// BasicLockWord: the common part of both locks: taking the word, waiting for it, and fork.
template <typename Machine>
class BasicLockWord {
 public:
  constexpr BasicLockWord() = default;
  BasicLockWord(const BasicLockWord&) = delete;
  BasicLockWord& operator=(const BasicLockWord&) = delete;

  bool try_lock() { return fork_holds_every_lock || acquire(); }
  // For assertions: whether the calling thread may hold it. True when the lock is held and this
  // thread holds a lock.
  bool is_held() const {
    return fork_holds_every_lock ||
           (locks_held != 0 && state_.load(std::memory_order_relaxed) != 0);
  }
  // Gives up after a while: fork may have been called by a signal handler that interrupted the
  // holder, which then continues to hold the lock in parent and child.
  void lock_for_fork();

 protected:
  bool acquire() {
    uint32_t free = 0;
    count_held(+1);
    if (state_.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      return true;
    count_held(-1);
    return false;
  }

  // Sleepers check again after this time; 0: only when they are woken.
  void wait(WaitCounters& waits, uint64_t recheck_ns);
  SEEMALLOC_COLD void wake();

  typename Machine::template Atomic<uint32_t> state_{0};
  bool held_by_fork_ = false;
};

template <typename Machine>
class BasicLock : public BasicLockWord<Machine> {
 protected:
  using BasicLockWord<Machine>::state_;

 public:
  void lock() {
    if (SEEMALLOC_UNLIKELY(!this->try_lock())) lock_slow();
  }
  // Tries every millisecond for about this time. For use at exit, where the holder may be a thread
  // that waits for an event that never occurs.
  bool try_lock_for(uint64_t ns);
  void unlock() {
    if (SEEMALLOC_UNLIKELY(fork_holds_every_lock)) return;
    if (SEEMALLOC_UNLIKELY(state_.exchange(0, std::memory_order_release) == 2)) this->wake();
    count_held(-1);
  }
  void unlock_after_fork();
  // For a forked child, if another thread of the parent may have held the lock.
  void reset() { state_.store(0, std::memory_order_relaxed); }

 private:
  SEEMALLOC_COLD void lock_slow();
};

// OwnerLock: a lock that one thread takes often and others rarely. It is released by a load and a
// store, where Lock needs an atomic exchange. A thread that goes to sleep between the two is not
// woken, and checks again after 10 ms.
template <typename Machine>
class BasicOwnerLock : public BasicLockWord<Machine> {
 protected:
  using BasicLockWord<Machine>::state_;

 public:
  void lock() {
    if (SEEMALLOC_UNLIKELY(!this->try_lock())) lock_slow();
  }
  void unlock() {
    if (SEEMALLOC_UNLIKELY(fork_holds_every_lock)) return;
    bool has_sleeper = state_.load(std::memory_order_relaxed) == 2;
    state_.store(0, std::memory_order_release);
    if (SEEMALLOC_UNLIKELY(has_sleeper)) this->wake();
    count_held(-1);
  }
  void unlock_after_fork();

 private:
  SEEMALLOC_COLD void lock_slow();
};

using LockWord = BasicLockWord<os::RealMachine>;
using Lock = BasicLock<os::RealMachine>;
using OwnerLock = BasicOwnerLock<os::RealMachine>;

// How often a lock was found held since the process started (a forked child restarts at zero).
// Uncontended locking is not counted.
struct LockWaits {
  uint64_t short_waits;  // became free within the spin
  uint64_t waits;        // threads that slept
  uint64_t wait_ns;      // total duration of `waits`
};
LockWaits shared_lock_waits();  // of Lock
LockWaits owner_lock_waits();   // of OwnerLock: a thread's heap, requested by other threads
void reset_lock_waits_in_child();

template <typename L>
class LockGuard {
 public:
  explicit LockGuard(L& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  L& lock_;
};

}  // namespace seemalloc
