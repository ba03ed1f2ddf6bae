#include "core/api/wake_up.h"

#include <signal.h>

#include "core/base/options.h"
#include "core/os/os.h"
#include "core/os/process.h"

namespace seemalloc {

int WakeUp::signal() { return options::get(options::Id::dump_signal) == SIGURG ? SIGWINCH : SIGURG; }

void WakeUp::keep_open(bool wanted) {
  if (descriptor_.fd >= 0 && !descriptor_.is_ours()) descriptor_.fd = -1;
  if (!wanted) return descriptor_.close();
  if (descriptor_.fd >= 0 || refused_) return;
  int fd = os::watch_signal(signal());
  refused_ = fd < 0;
  if (fd >= 0) descriptor_.set(fd);
}

void WakeUp::note(const os::Poll& poll) {
  // Only what was sent by wake() is taken: the same signal to the whole process is the program's.
  if (sent_.exchange(false, std::memory_order_acquire)) {
    os::take_signal(signal());
    in_vain_ = 0;
  } else if (poll.readable && ++in_vain_ == kManyTimes) {
    descriptor_.fd = -1;  // somebody else's by now, and of a kind whose identities are all the same
    in_vain_ = 0;
  }
}

void WakeUp::wake(int process, int thread) {
  if (sent_.load(std::memory_order_relaxed)) return;
  // In this order: what is said to be sent can be taken.
  os::signal_thread(process, thread, signal());
  sent_.store(true, std::memory_order_release);
}

void WakeUp::forget() {
  descriptor_.close();
  refused_ = false;
  sent_.store(false, std::memory_order_relaxed);
}

}  // namespace seemalloc
