// AsymmetricLock: a lock that costs its owner a store and a load, and every other thread a system
// call.
//
// Protocol (Dekker's, with the owner's fence moved into the other thread's membarrier): the owner
// sets inside_, then reads closed_. Another thread sets closed_, makes every running thread execute
// a fence, then reads inside_. At least one of the two sees the other and backs off: no thread ever
// waits. inside_ and closed_ are cleared by releases that pair with the acquires. If the kernel
// refuses membarrier, only the owner can enter.
// Constant-initialised. Not recursive. fork: a child may reset() the locks of threads that it does
// not have.
// Checked by asymmetric_lock_model_test.cc, which runs this code in every interleaving, and
// asymmetric_lock_test.cc.
#pragma once

#include <atomic>

#include "core/base/compiler.h"
#include "core/os/kernel/real_machine.h"

namespace seemalloc {

template <typename Machine>
class BasicAsymmetricLock {
 public:
  constexpr BasicAsymmetricLock() = default;
  BasicAsymmetricLock(const BasicAsymmetricLock&) = delete;
  BasicAsymmetricLock& operator=(const BasicAsymmetricLock&) = delete;

  // The owner's side. Returns false while another thread is inside: the owner must do without.
  SEEMALLOC_ALWAYS_INLINE bool try_lock_owner() {
    inside_.store(true, std::memory_order_relaxed);
    Machine::compiler_fence();
    if (SEEMALLOC_LIKELY(!closed_.load(std::memory_order_acquire))) return true;
    unlock_owner();
    return false;
  }
  SEEMALLOC_ALWAYS_INLINE void unlock_owner() { inside_.store(false, std::memory_order_release); }

  // The other threads' side. Returns false when the owner or another thread is inside, or when the
  // kernel has no membarrier.
  bool try_lock_other() {
    if (closed_.exchange(true, std::memory_order_acquire)) return false;
    if (Machine::fence_all_threads() && !inside_.load(std::memory_order_acquire)) return true;
    unlock_other();
    return false;
  }
  void unlock_other() { closed_.store(false, std::memory_order_release); }

  // For a forked child. Does not write to a lock that is not held.
  void reset() {
    if (inside_.load(std::memory_order_relaxed)) inside_.store(false, std::memory_order_relaxed);
    if (closed_.load(std::memory_order_relaxed)) closed_.store(false, std::memory_order_relaxed);
  }

 protected:
  typename Machine::template Atomic<bool> inside_{false};
  typename Machine::template Atomic<bool> closed_{false};
};

using AsymmetricLock = BasicAsymmetricLock<os::RealMachine>;

}  // namespace seemalloc
