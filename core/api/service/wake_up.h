// WakeUp: gets the helper thread out of its poll, from any thread and from signal handlers.
//
// A descriptor to write to would be unsafe: the program may close it and reuse its number for a
// file of its own. Here the waking thread needs none: it sends a signal to the helper thread alone,
// which has it blocked, so that it stays pending, whatever the program does with that signal; the
// helper thread polls a descriptor that shows pending signals. If that is refused, the helper
// thread wakes up when its time-out expires, as without a wake-up. It does the same while the same
// signal is pending for the whole process (every thread has blocked it): the descriptor shows that
// one, too, and only the program may consume it.
// Threads: the helper thread only, except wake().
#pragma once

#include <atomic>

#include "core/os/process/descriptor.h"
#include "core/os/process/socket.h"

namespace seemalloc {

class WakeUp {
 public:
  // Opens the descriptor, and reopens it if the program has closed it; closes it when it is not
  // wanted. Called before each wait.
  void keep_open(bool wanted = true);
  // The descriptor to poll, and the result of the poll.
  os::Poll wanted() const { return os::Poll{program_signal_pending_ ? -1 : descriptor_.fd, false}; }
  // Returns whether wake() has been called.
  bool note(const os::Poll& poll);
  // In the child of fork: the helper thread does not exist.
  void forget();

  // Any thread, at any time. `thread` is the id of the helper thread.
  void wake(int process, int thread);

  // Must be blocked in the helper thread: a signal that is ignored by default, and not the one that
  // requests dumps.
  static int signal();

 private:
  // In a row. Occasionally the signal arrives before signal_sent_ is set.
  static constexpr unsigned kMaxSpuriousWakeups = 20;

  // The signal that is pending is not from wake().
  bool is_program_signal() const;

  os::CheckedDescriptor descriptor_;
  bool refused_ = false;
  bool program_signal_pending_ = false;  // the pending signal is the program's
  unsigned spurious_wakeups_ = 0;
  // Threads between sending the signal and setting signal_sent_.
  std::atomic<unsigned> senders_{0};
  std::atomic<bool> signal_sent_{false};
};

}  // namespace seemalloc
