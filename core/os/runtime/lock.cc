#include "core/os/runtime/lock.h"

#include "core/base/counters.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/wait.h"

namespace seemalloc {

namespace {
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
// Tries for a fifth of a second, or only a few times if this thread itself may be the holder.
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

struct alignas(kCacheLineBytes) WaitCounters {
  std::atomic<uint64_t> short_waits, waits, wait_ns;

  void count_short() { short_waits.fetch_add(1, std::memory_order_relaxed); }
  void count_long(uint64_t since_ns) {
    waits.fetch_add(1, std::memory_order_relaxed);
    wait_ns.fetch_add(os::monotonic_ns() - since_ns, std::memory_order_relaxed);
  }
  LockWaits read() const {
    return {short_waits.load(std::memory_order_relaxed), waits.load(std::memory_order_relaxed),
            wait_ns.load(std::memory_order_relaxed)};
  }
  void forget() { set_to_zero(short_waits, waits, wait_ns); }
};

namespace {
constinit WaitCounters shared_waits, owner_waits;
}  // namespace

LockWaits shared_lock_waits() { return shared_waits.read(); }
LockWaits owner_lock_waits() { return owner_waits.read(); }
void forget_lock_waits_in_child() {
  shared_waits.forget();
  owner_waits.forget();
}

void LockWord::wait(WaitCounters& waits, uint64_t look_again_ns) {
  for (int i = 0; i < kSpinsBeforeSleep; i++) {
    if (state_.load(std::memory_order_relaxed) == 0 && try_lock()) return waits.count_short();
    pause();
  }
  uint64_t begin = os::monotonic_ns();
  count_held(+1);
  constexpr uint64_t kWithoutFutex_ns = 100000;
  while (state_.exchange(2, std::memory_order_acquire) != 0) {
    if (!os::futex_wait(&state_, 2, look_again_ns)) os::pause(kWithoutFutex_ns);
  }
  waits.count_long(begin);
}

void LockWord::wake() { os::futex_wake(&state_, 1); }

void Lock::lock_slow() { wait(shared_waits, 0); }
void OwnerLock::lock_slow() { wait(owner_waits, 10 * kMillisecond_ns); }

bool Lock::try_lock_for(uint64_t ns) {
  constexpr uint64_t kStep_ns = kMillisecond_ns;
  for (uint64_t waited = 0; !try_lock(); waited += kStep_ns) {
    if (waited >= ns) return false;
    os::pause(kStep_ns);
  }
  return true;
}

}  // namespace seemalloc
