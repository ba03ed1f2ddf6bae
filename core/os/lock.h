// Mutexes of one word: a bounded spin, then the kernel's futex. Constant-initialised, usable before constructors run.
//
// Not recursive, not fair. State: 0 free, 1 held, 2 held and somebody may sleep. The acquiring exchange pairs with the
// releasing exchange or store in unlock(). fork takes them all: see below.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc {

// The forking thread holds all of our locks from its prepare handler to its parent or child handler. Handlers of others
// that run in between may allocate: for this thread locking means nothing then.
extern constinit thread_local bool fork_holds_every_lock __attribute__((tls_model("initial-exec")));
// Set from the prepare handler to the end of the parent's and child's: fork was called in such a signal handler.
extern constinit thread_local bool fork_interrupts_a_holder __attribute__((tls_model("initial-exec")));
// Locks this thread holds. Not zero in a signal handler that has interrupted one of our critical sections.
extern constinit thread_local unsigned locks_held __attribute__((tls_model("initial-exec")));
// Counted before a lock is taken and after it is released, so that a handler never sees too few.
SEEMALLOC_ALWAYS_INLINE void count_held(int by) {
  locks_held += static_cast<unsigned>(by);
  __asm__ volatile("" ::: "memory");
}

// Long enough for a critical section on another CPU, short enough not to hurt under priorities or one CPU.
inline constexpr int kSpinsBeforeSleep = 64;

struct WaitCounters;

// What the two kinds of lock share: taking the word, waiting for it, and fork.
class LockWord {
 public:
  constexpr LockWord() = default;
  LockWord(const LockWord&) = delete;
  LockWord& operator=(const LockWord&) = delete;

  bool try_lock() { return fork_holds_every_lock || acquire(); }
  // Does not wait for ever: fork may have been called by a signal handler that interrupted the holder, which then goes on
  // holding it in parent and child.
  void lock_for_fork();

 protected:
  bool acquire() {
    uint32_t free = 0;
    count_held(+1);
    if (state_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    count_held(-1);
    return false;
  }

  // Sleepers look again after so long, or (0) are woken only.
  void wait(WaitCounters& waits, uint64_t look_again_ns);
  SEEMALLOC_COLD void wake();

  std::atomic<uint32_t> state_{0};
  bool held_by_fork_ = false;
};

class Lock : public LockWord {
 public:
  void lock() {
    if (SEEMALLOC_UNLIKELY(!try_lock())) lock_slow();
  }
  // Looks again each millisecond, for about so long: at exit, where the holder may be a thread that waits for something that never comes.
  bool try_lock_for(uint64_t ns);
  void unlock() {
    if (SEEMALLOC_UNLIKELY(fork_holds_every_lock)) return;
    if (SEEMALLOC_UNLIKELY(state_.exchange(0, std::memory_order_release) == 2)) wake();
    count_held(-1);
  }
  void unlock_after_fork();
  // In a forked child whose parent's other threads may have held it.
  void reset() { state_.store(0, std::memory_order_relaxed); }

 private:
  SEEMALLOC_COLD void lock_slow();
};

// A lock that one thread takes all the time and others hardly ever: released by a load and a store, where Lock needs an atomic
// exchange. A sleeper that comes between the two is not woken, and looks again after 10 ms.
class OwnerLock : public LockWord {
 public:
  void lock() {
    if (SEEMALLOC_UNLIKELY(!try_lock())) lock_slow();
  }
  void unlock() {
    if (SEEMALLOC_UNLIKELY(fork_holds_every_lock)) return;
    bool somebody_sleeps = state_.load(std::memory_order_relaxed) == 2;
    state_.store(0, std::memory_order_release);
    if (SEEMALLOC_UNLIKELY(somebody_sleeps)) wake();
    count_held(-1);
  }
  void unlock_after_fork();

 private:
  SEEMALLOC_COLD void lock_slow();
};

// How often a lock was found held, since the process began, as a child of fork too. Nothing is counted where it was free.
struct LockWaits {
  uint64_t short_waits;  // it was free again within the spin
  uint64_t waits;        // those that went to sleep
  uint64_t wait_ns;      // what these took
};
LockWaits shared_lock_waits();  // of Lock
LockWaits owner_lock_waits();   // of OwnerLock: a thread's heap, wanted by others
void forget_lock_waits_in_child();

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
