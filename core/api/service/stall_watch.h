// StallWatch: has the kernel report memory stalls (PSI): of this process's cgroup, else of the
// machine.
//
// Threads: the helper thread only.
#pragma once

#include <cstdint>

#include "core/os/process/descriptor.h"
#include "core/os/process/socket.h"

namespace seemalloc {

class StallWatch {
 public:
  // Opens the report, and reopens it if the program has closed it; closes it when it is not wanted.
  // Tried once a minute.
  void keep_open();
  // The descriptor to poll, and the result of the poll.
  os::Poll wanted() const;
  void note(const os::Poll& poll);
  // True when there was a report since the last call.
  bool take_report();
  // In the child of fork: the report belongs to the parent.
  void forget();

 private:
  os::CheckedDescriptor descriptor_;
  uint64_t try_again_ns_ = 0;
  bool reported_ = false;
};

}  // namespace seemalloc
