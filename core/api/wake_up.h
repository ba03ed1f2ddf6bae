// WakeUp: gets the helper out of its poll, from any thread and from signal handlers.
//
// A descriptor to write to would be in danger: the program may close it and get its number for a file of its own. Here
// the waking thread needs none: it sends a signal to the helper alone, which has it blocked, so that it stays pending, whatever
// the program does with that signal; the helper polls a descriptor that shows what is pending. Where that is refused the helper
// wakes up when its time is over, as it does without.
// Threads: the helper's own, but for wake().
#pragma once

#include <atomic>

#include "core/os/descriptor.h"

namespace seemalloc {

class WakeUp {
 public:
  // Opens the descriptor, again where the program has closed it; closes it when nobody is to wake us.
  void keep_open(bool wanted);
  // What to wait for, and what came of it.
  os::Poll wanted() const { return os::Poll{descriptor_.fd, false}; }
  void note(const os::Poll& poll);
  // In the child of fork: the helper is gone.
  void forget();

  // By anybody, at any time. `thread` is the helper's id.
  void wake(int process, int thread);

  // Must be blocked in the helper: one that is ignored by default, and not the one that asks for dumps.
  static int signal();

 private:
  // Now and then the signal is there before it is said to be sent.
  static constexpr unsigned kManyTimes = 1000;

  os::Descriptor descriptor_;
  bool refused_ = false;
  unsigned in_vain_ = 0;
  std::atomic<bool> sent_{false};
};

}  // namespace seemalloc
