#include "core/api/service/stall_watch.h"

#include "core/base/options.h"
#include "core/base/units.h"
#include "core/heap/maintenance/pressure.h"
#include "core/os/kernel/clock.h"
#include "core/os/process/cgroup.h"

namespace seemalloc {

namespace {

constexpr uint64_t kTryAgainNs = 60 * kSecondNs;

// Opens a pressure report. -1 if there is none; with *again set, try again soon: the machine's
// report covers other processes, too.
int open_report(bool* again) {
  char path[os::MemoryGroup::kMaxPath];
  heap::GroupFile file = heap::memory_group_file("memory.pressure", path);
  *again = file == heap::GroupFile::kBusy;
  if (*again) return -1;
  int fd = file == heap::GroupFile::kFound ? os::watch_stalls(path) : -1;
  return fd >= 0 ? fd : os::watch_stalls("/proc/pressure/memory");
}

}  // namespace

void StallWatch::keep_open() {
  if (descriptor_.fd >= 0 && !descriptor_.is_ours()) descriptor_.fd = -1;
  if (options::get(options::Id::pressure) == 0) {
    descriptor_.close();
    return;
  }
  uint64_t now = os::coarse_monotonic_ns();
  if (descriptor_.fd >= 0 || now < try_again_ns_) return;
  bool again;
  int fd = open_report(&again);
  if (!again) try_again_ns_ = now + kTryAgainNs;
  if (fd >= 0) descriptor_.set(fd);
}

os::Poll StallWatch::wanted() const { return os::Poll{descriptor_.fd, false, true}; }

void StallWatch::note(const os::Poll& poll) {
  reported_ |= poll.ready;
  // Its cgroup is gone, or the descriptor is not ours any more.
  if (poll.broken) descriptor_.close();
}

bool StallWatch::take_report() {
  bool reported = reported_;
  reported_ = false;
  return reported;
}

void StallWatch::forget() {
  descriptor_.close();
  try_again_ns_ = 0;
  reported_ = false;
}

}  // namespace seemalloc
