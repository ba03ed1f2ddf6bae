#include "core/api/service/wake_up.h"

#include <signal.h>

#include "core/base/options.h"
#include "core/os/process/process.h"

namespace seemalloc {

int WakeUp::signal() {
  return options::get(options::Id::dump_signal) == SIGURG ? SIGWINCH : SIGURG;
}

// Checked in this order: for a signal pending from wake(), its sender is still counted in sending_
// or has set sent_.
bool WakeUp::is_theirs() const {
  return os::is_signal_pending(signal()) && sending_.load(std::memory_order_acquire) == 0 &&
         !sent_.load(std::memory_order_relaxed);
}

void WakeUp::keep_open(bool wanted) {
  if (theirs_) theirs_ = is_theirs();
  if (descriptor_.fd >= 0 && !descriptor_.is_ours()) descriptor_.fd = -1;
  if (!wanted) return descriptor_.close();
  if (descriptor_.fd >= 0 || refused_) return;
  int fd = os::watch_signal(signal());
  refused_ = fd < 0;
  if (fd >= 0) descriptor_.set(fd);
}

void WakeUp::note(const os::Poll& poll) {
  // Only a signal sent by wake() is consumed: the same signal to the whole process is the
  // program's.
  if (sent_.exchange(false, std::memory_order_acquire)) {
    os::take_signal(signal());
    in_vain_ = 0;
    return;
  }
  in_vain_ = poll.ready ? in_vain_ + 1 : 0;
  if (in_vain_ != kManyTimes) return;
  in_vain_ = 0;
  theirs_ = is_theirs();
  // The descriptor's number now belongs to another file, of a kind whose identities are all the
  // same: it is not ours to close.
  if (!os::is_signal_pending(signal())) descriptor_.fd = -1;
}

void WakeUp::wake(int process, int thread) {
  if (sent_.load(std::memory_order_relaxed)) return;
  // In this order: when sent_ is set, the signal can be consumed.
  sending_.fetch_add(1, std::memory_order_relaxed);
  os::signal_thread(process, thread, signal());
  sent_.store(true, std::memory_order_release);
  sending_.fetch_sub(1, std::memory_order_release);
}

void WakeUp::forget() {
  descriptor_.close();
  refused_ = theirs_ = false;
  in_vain_ = 0;
  sending_.store(0, std::memory_order_relaxed);
  sent_.store(false, std::memory_order_relaxed);
}

}  // namespace seemalloc
