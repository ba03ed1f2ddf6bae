// BareThread: a thread of this process that the C library does not know of, made by the bare system call.
//
// pthread_create tells the C library that the process has several threads, for the rest of its life: stdio locks each
// character, and libstdc++'s shared_ptr counts with atomics. A program of one thread is to run as it does without us
// (decision 0075).
//
// What the thread runs keeps these rules, which tests/abi/helper_calls.py checks:
// 1. It uses no thread-local memory but this library's, which is all zero at first, and errno. Nothing else is set up in it.
// 2. It takes no lock of the C library's: with one thread, as the C library believes, these locks are not atomic.
// 3. It blocks all signals, since a handler of the program's may break rules 1 and 2. It inherits the mask of who starts it.
//
// It has the credentials and namespaces of the thread that starts it. The C library's setuid and its like do not reach
// it. In builds for sanitizers it is an ordinary thread, since their runtimes have to know of each one.
// Threads: start() and wait_for_end() by one thread at a time; id() by any.
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

  // Runs it in a thread of its own; its result is the process's status, should it be the last thread. Requires: the one
  // before has ended. The memory for its stack stays mapped, for the next one.
  bool start(int (*run)(), size_t stack_bytes);
  // Of the thread that runs; 0 once the kernel has seen its end: it makes no system call any more.
  int id() const { return id_.load(std::memory_order_acquire); }
  // Until it has ended, or so long.
  void wait_for_end(uint64_t ns) const;
  // In the child of fork: there is no such thread.
  void forget() { id_.store(0, std::memory_order_relaxed); }

 private:
  bool make_room(size_t stack_bytes);

  std::atomic<int> id_{0};  // written by the kernel
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  uintptr_t thread_pointer_ = 0;
};

}  // namespace seemalloc::os
