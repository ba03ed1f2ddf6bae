// WakeUp: gets the helper out of its poll, from any thread and from signal handlers.
//
// A descriptor to write to would be in danger: the program may close it and get its number for a file of its own. Here
// the waking thread needs none: it sends a signal to the helper alone, which has it blocked, so that it stays pending, whatever
// the program does with that signal; the helper polls a descriptor that shows what is pending. Where that is refused the helper
// wakes up when its time is over, as it does without; and so it does while the same signal is pending for the whole process (every
// thread has blocked it): the descriptor shows that one, too, and only the program may take it.
// Threads: the helper's own, but for wake().
#pragma once

#include <atomic>

#include "core/os/descriptor.h"

namespace seemalloc {

class WakeUp {
 public:
  // Opens the descriptor, again where the program has closed it; closes it when it is not wanted. Before each wait.
  void keep_open(bool wanted = true);
  // What to wait for, and what came of it.
  os::Poll wanted() const { return os::Poll{theirs_ ? -1 : descriptor_.fd, false}; }
  void note(const os::Poll& poll);
  // In the child of fork: the helper is gone.
  void forget();

  // By anybody, at any time. `thread` is the helper's id.
  void wake(int process, int thread);

  // Must be blocked in the helper: one that is ignored by default, and not the one that asks for dumps.
  static int signal();

 private:
  // In a row. Now and then the signal is there before it is said to be sent.
  static constexpr unsigned kManyTimes = 20;

  // The signal that is pending is not from wake().
  bool is_theirs() const;

  os::Descriptor descriptor_;
  bool refused_ = false;
  bool theirs_ = false;  // what is pending is the program's
  unsigned in_vain_ = 0;
  std::atomic<unsigned> sending_{0};  // those between sending and saying so
  std::atomic<bool> sent_{false};
};

}  // namespace seemalloc
