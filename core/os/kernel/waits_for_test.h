// Waits of tests. None depends on how long something takes:
// - Progress: a test waits for another thread of its own;
// - CallWatch: a test waits until another thread is in a system call that waits;
// - wait_until: only the kernel or the library's own threads know, so the test polls.
// A test that waits for time to pass uses advance_test_clock (fault.h).
#pragma once

#include <gtest/gtest.h>

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/wait.h"

namespace seemalloc {

// A count that threads of a test advance and wait for: of steps, or of threads that are ready.
class Progress {
 public:
  void advance() {
    count_++;
    count_.notify_all();
  }
  void wait_for(int count) const {
    for (int seen; (seen = count_) < count;) count_.wait(seen);
  }
  // Waits until other threads have advanced this many times more.
  void wait_for_more(int steps = 1) const { wait_for(count_ + steps); }
  int count() const { return count_; }

 private:
  std::atomic<int> count_{0};
};

// Polls until the condition holds. The bound is for a failure only: a minute of pauses, longer on a
// busy machine. Returns false, with a failure that names what was awaited, when it is exceeded.
template <typename Condition>
bool wait_until(Condition condition, const char* awaited) {
  for (int i = 0; i < 60'000; i++) {
    if (condition()) return true;
    os::pause(kMillisecondNs);
  }
  ADD_FAILURE() << "waited in vain for: " << awaited;
  return false;
}

// While it exists, it sees the system calls that threads make through os::sys. A thread names the
// call in which it will wait; other threads wait until it is about to make that call.
class CallWatch {
 public:
  CallWatch() {
    calls = &made_;
    os::fault_hook = hook;
  }
  ~CallWatch() { os::fault_hook = nullptr; }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  // The first call of this number by this thread counts.
  void expect_by_this_thread(long number) { expected = number; }
  void wait_for(int calls) const {
    wait_until([&] { return count() >= calls; }, "a system call of another thread");
  }
  int count() const { return made_; }

 private:
  static long hook(long number) {
    if (number == expected) {
      expected = kNone;
      (*calls.load())++;
    }
    return 0;
  }
  static constexpr long kNone = -1;
  static inline thread_local long expected = kNone;
  static inline std::atomic<std::atomic<int>*> calls;
  std::atomic<int> made_{0};
};

}  // namespace seemalloc
