// BareThread: a thread of this process that the C library does not know of, created by the clone
// system call.
//
// pthread_create tells the C library that the process has several threads, for the rest of its
// life: stdio locks each character, and libstdc++'s shared_ptr counts with atomics. A
// single-threaded program should run as fast as without seemalloc (docs/decisions/0075).
//
// The code that the thread runs keeps these rules, which tests/abi/helper_calls.py checks:
// 1. The only thread-local memory that it uses is this library's, which is all zero at first, and
//    errno. No other thread-local memory is initialised.
// 2. It takes no lock of the C library: these locks are not atomic while the C library knows of
//    only one thread.
// 3. It blocks all signals, since a handler of the program may break rules 1 and 2. It inherits the
//    signal mask of the thread that starts it.
//
// It has the credentials and namespaces of the thread that starts it. The C library's setuid and
// similar functions do not change them. In builds with sanitizers it is an ordinary thread, since
// their runtimes must know of each thread. Threads: start() and wait_for_end() by one thread at a
// time; id() by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

class BareThread {
 public:
  constexpr BareThread() = default;
  BareThread(const BareThread&) = delete;
  BareThread& operator=(const BareThread&) = delete;

  // Starts a thread that calls `run`. The result of `run` is the process's exit status if this is
  // its last thread. Requires: the previous thread has ended. The memory of the stack stays mapped
  // for the next thread.
  bool start(int (*run)(), size_t stack_bytes);
  // The id of the running thread; 0 after it has made its last system call. It may be a thread of
  // the process for a moment longer.
  int id() const { return id_.load(std::memory_order_acquire); }
  // Waits until the thread has ended and the process no longer has it, for at most `ns`. Calls such
  // as unshare and setns require that the process has only one thread.
  void wait_for_end(uint64_t ns) const;
  // Called in the child of fork, which does not have the thread.
  void forget() {
    id_.store(0, std::memory_order_relaxed);
    last_id_.store(0, std::memory_order_relaxed);
  }

 private:
  bool make_room(size_t stack_bytes);

  std::atomic<int> id_{0};              // written by the kernel
  std::atomic<int> last_id_{0};         // of the thread that start() has started last
  std::atomic<char*> memory_{nullptr};  // stored last: then bytes_ and thread_pointer_ are valid
  size_t bytes_ = 0;
  uintptr_t thread_pointer_ = 0;
};

}  // namespace seemalloc::os
