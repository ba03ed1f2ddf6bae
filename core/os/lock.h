// A mutex of one word: a bounded spin, then the kernel's futex. Constant-initialised, usable before constructors run.
//
// Not recursive, not fair. State: 0 free, 1 held, 2 held and somebody may sleep. The acquiring exchange pairs with the
// releasing exchange in unlock(). A child of fork whose parent held it in another thread calls reset().
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc {

class Lock {
 public:
  constexpr Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() {
    if (SEEMALLOC_UNLIKELY(!try_lock())) lock_slow();
  }
  bool try_lock() {
    uint32_t free = 0;
    return state_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (SEEMALLOC_UNLIKELY(state_.exchange(0, std::memory_order_release) == 2)) wake();
  }
  void reset() { state_.store(0, std::memory_order_relaxed); }
  bool is_held() const { return state_.load(std::memory_order_relaxed) != 0; }

 private:
  SEEMALLOC_COLD void lock_slow();
  SEEMALLOC_COLD void wake();

  std::atomic<uint32_t> state_{0};
};

// A lock that one thread takes all the time and others hardly ever: released by a plain store, where Lock needs an atomic
// exchange to know of sleepers. Who finds it held looks again after a while instead of being woken.
class OwnerLock {
 public:
  constexpr OwnerLock() = default;
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  void lock() {
    if (SEEMALLOC_UNLIKELY(!try_lock())) lock_slow();
  }
  bool try_lock() {
    uint32_t free = 0;
    return held_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  SEEMALLOC_COLD void lock_slow();

  std::atomic<uint32_t> held_{0};
};

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
