// StallWatch: has the kernel report when tasks wait for memory (PSI): those of this process's cgroup, else the machine's.
//
// Threads: the helper's own.
#pragma once

#include <cstdint>

#include "core/os/descriptor.h"
#include "core/os/socket.h"

namespace seemalloc {

class StallWatch {
 public:
  // Opens the report, again where the program has closed it; closes it when it is not wanted. Tried once a minute.
  void keep_open();
  // What to wait for, and what came of it.
  os::Poll wanted() const;
  void note(const os::Poll& poll);
  // True when there was a report since the last call.
  bool take_report();
  // In the child of fork: the report is the parent's.
  void forget();

 private:
  os::Descriptor descriptor_;
  uint64_t try_again_ns_ = 0;
  bool reported_ = false;
};

}  // namespace seemalloc
