#include "core/os/lock.h"

#include "core/os/os.h"

namespace seemalloc {

namespace {
// Long enough for a critical section on another CPU, short enough not to hurt under priorities or one CPU.
constexpr int kSpins = 64;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}
}  // namespace

constinit thread_local bool fork_holds_every_lock __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local bool fork_interrupts_a_holder __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local unsigned locks_held __attribute__((tls_model("initial-exec"))) = 0;

namespace {
// Tries for a fifth of a second; where the holder may well be this thread itself, hardly at all.
template <typename F>
bool acquire_in_time(bool interrupted, F acquire) {
  constexpr int kTries = 2000, kTriesInterrupted = 3;
  constexpr uint64_t kPause_ns = 100000;
  for (int i = 0; i < (interrupted ? kTriesInterrupted : kTries); i++) {
    if (acquire()) return true;
    os::pause(kPause_ns);
  }
  return false;
}
}  // namespace

void LockWord::lock_for_fork() {
  held_by_fork_ = acquire_in_time(fork_interrupts_a_holder, [this] { return acquire(); });
}

void Lock::unlock_after_fork() {
  if (!held_by_fork_) return;
  held_by_fork_ = false;
  unlock();
}

void OwnerLock::unlock_after_fork() {
  if (!held_by_fork_) return;
  held_by_fork_ = false;
  unlock();
}

void Lock::lock_slow() {
  for (int i = 0; i < kSpins; i++) {
    if (state_.load(std::memory_order_relaxed) == 0 && try_lock()) return;
    pause();
  }
  count_held(+1);
  while (state_.exchange(2, std::memory_order_acquire) != 0) os::futex_wait(&state_, 2);
}

void OwnerLock::lock_slow() {
  constexpr uint64_t kLookAgain_ns = 50000;
  for (int i = 0; !try_lock(); i++) {
    if (i < kSpins) {
      pause();
    } else {
      os::futex_wait(&state_, 1, kLookAgain_ns);
    }
  }
}

void Lock::wake() { os::futex_wake(&state_, 1); }

}  // namespace seemalloc
