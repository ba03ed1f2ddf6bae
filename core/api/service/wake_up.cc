#include "core/api/service/wake_up.h"

#include <signal.h>

#include "core/base/options.h"
#include "core/os/process/process.h"

namespace seemalloc {

int WakeUp::signal() {
  return options::get(options::Id::dump_signal) == SIGURG ? SIGWINCH : SIGURG;
}

// Checked in this order: for a signal pending from wake(), its sender is still counted in senders_
// or has set signal_sent_.
bool WakeUp::is_program_signal() const {
  return os::is_signal_pending(signal()) && senders_.load(std::memory_order_acquire) == 0 &&
         !signal_sent_.load(std::memory_order_relaxed);
}

void WakeUp::keep_open(bool wanted) {
  if (program_signal_pending_) program_signal_pending_ = is_program_signal();
  if (descriptor_.fd >= 0 && !descriptor_.is_ours()) descriptor_.fd = -1;
  if (!wanted) return descriptor_.close();
  if (descriptor_.fd >= 0 || refused_) return;
  int fd = os::watch_signal(signal());
  refused_ = fd < 0;
  if (fd >= 0) descriptor_.set(fd);
}

bool WakeUp::note(const os::Poll& poll) {
  // Only a signal sent by wake() is consumed: the same signal to the whole process is the
  // program's.
  if (signal_sent_.exchange(false, std::memory_order_acquire)) {
    os::take_signal(signal());
    spurious_wakeups_ = 0;
    return true;
  }
  spurious_wakeups_ = poll.ready ? spurious_wakeups_ + 1 : 0;
  if (spurious_wakeups_ != kMaxSpuriousWakeups) return false;
  spurious_wakeups_ = 0;
  program_signal_pending_ = is_program_signal();
  // The descriptor's number now belongs to another file, of a kind whose identities are all the
  // same: it is not ours to close.
  if (!os::is_signal_pending(signal())) descriptor_.fd = -1;
  return false;
}

void WakeUp::wake(int process, int thread) {
  if (signal_sent_.load(std::memory_order_relaxed)) return;
  // In this order: when signal_sent_ is set, the signal can be consumed.
  senders_.fetch_add(1, std::memory_order_relaxed);
  os::signal_thread(process, thread, signal());
  signal_sent_.store(true, std::memory_order_release);
  senders_.fetch_sub(1, std::memory_order_release);
}

void WakeUp::forget() {
  descriptor_.close();
  refused_ = program_signal_pending_ = false;
  spurious_wakeups_ = 0;
  senders_.store(0, std::memory_order_relaxed);
  signal_sent_.store(false, std::memory_order_relaxed);
}

}  // namespace seemalloc
