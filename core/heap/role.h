// What one thread does at a time and others do without or wait for, by pausing. Constant-initialised.
//
// Not a lock: its holder makes system calls and takes locks, a signal handler may ask whether its own thread has the role, and a
// child of fork has it free at once if its holder is not there.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/units.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"

namespace seemalloc::heap {

class Role {
 public:
  bool try_take() {
    const void* nobody = nullptr;
    return holder_.compare_exchange_strong(nobody, &thread_cache, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // Not at all where a signal handler has interrupted the holder, and for 50 ms at most.
  bool try_take_for(uint64_t most_ns) {
    constexpr uint64_t kPause_ns = 100 * kMicrosecond_ns, kLongest_ns = 50 * kMillisecond_ns;
    if (most_ns > kLongest_ns) most_ns = kLongest_ns;
    for (uint64_t waited_ns = 0; waited_ns < most_ns; waited_ns += kPause_ns) {
      if (try_take()) return true;
      if (is_mine()) return false;
      os::pause(kPause_ns);
    }
    return false;
  }
  void take() {
    while (!try_take()) os::pause(50 * kMicrosecond_ns);
  }
  void leave() { holder_.store(nullptr, std::memory_order_release); }
  // By the thread that asks: in a signal handler that has interrupted it.
  bool is_mine() const { return holder_.load(std::memory_order_relaxed) == &thread_cache; }
  // In a forked child: who had it is not there, but for this thread.
  void forget_in_child() {
    if (!is_mine()) holder_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  std::atomic<const void*> holder_{nullptr};  // an address of the holder's own
};

class RoleGuard {
 public:
  explicit RoleGuard(Role& role) : role_(role) { role_.take(); }
  ~RoleGuard() { role_.leave(); }
  RoleGuard(const RoleGuard&) = delete;
  RoleGuard& operator=(const RoleGuard&) = delete;

 private:
  Role& role_;
};

}  // namespace seemalloc::heap
