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

void Lock::lock_slow() {
  for (int i = 0; i < kSpins; i++) {
    if (state_.load(std::memory_order_relaxed) == 0 && try_lock()) return;
    pause();
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) os::futex_wait(&state_, 2);
}

void OwnerLock::lock_slow() {
  constexpr uint64_t kLookAgain_ns = 50000;
  for (int i = 0; !try_lock(); i++) {
    if (i < kSpins) {
      pause();
    } else {
      os::futex_wait(&held_, 1, kLookAgain_ns);
    }
  }
}

void Lock::wake() { os::futex_wake(&state_, 1); }

}  // namespace seemalloc
