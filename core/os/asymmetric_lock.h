// A lock whose owner pays a store and a load, and whoever else wants in makes a system call.
//
// Protocol (Dekker's, with the owner's fence moved into the other's membarrier): the owner sets inside_, then reads
// closed_; another thread sets closed_, has every running thread execute a fence, then reads inside_. One of the two sees
// the other and gives way: nobody ever waits. inside_ and closed_ are cleared by releases that pair with the acquires.
// Where the kernel refuses membarrier nobody else gets in.
// Constant-initialised. Not recursive. fork: a child may reset() the locks of threads that it does not have.
#pragma once

#include <atomic>

#include "core/base/compiler.h"
#include "core/os/os.h"

namespace seemalloc {

class AsymmetricLock {
 public:
  constexpr AsymmetricLock() = default;
  AsymmetricLock(const AsymmetricLock&) = delete;
  AsymmetricLock& operator=(const AsymmetricLock&) = delete;

  // The owner's side. False while another thread is in: do without.
  SEEMALLOC_ALWAYS_INLINE bool enter() {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (SEEMALLOC_LIKELY(!closed_.load(std::memory_order_acquire))) return true;
    leave();
    return false;
  }
  SEEMALLOC_ALWAYS_INLINE void leave() { inside_.store(false, std::memory_order_release); }

  // Everybody else's. False when the owner or another is in, or the kernel has no membarrier.
  bool try_close() {
    if (closed_.exchange(true, std::memory_order_acquire)) return false;
    if (os::fence_all_threads() && !inside_.load(std::memory_order_acquire)) return true;
    open();
    return false;
  }
  void open() { closed_.store(false, std::memory_order_release); }

  // In a forked child. One that nobody holds is not written to.
  void reset() {
    if (inside_.load(std::memory_order_relaxed)) inside_.store(false, std::memory_order_relaxed);
    if (closed_.load(std::memory_order_relaxed)) closed_.store(false, std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> closed_{false};
};

}  // namespace seemalloc
