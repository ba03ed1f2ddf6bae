// PageResidence: which memory of the process is resident and not shared, according to
// /proc/PID/pagemap.
//
// Memory shared with a forked child is resident in both processes: writing or moving it makes a
// copy. No allocation. Threads: an object has one user at a time. In a forked child the file is
// still the parent's: call close() first.
#pragma once

#include <cstddef>

#include "core/os/process/descriptor.h"

namespace seemalloc::os {

class PageResidence {
 public:
  // Bytes of [start, start + bytes) that are resident and mapped by this process only; 0 if this is
  // unknown. Requires: whole OS pages.
  size_t exclusive_bytes(const void* start, size_t bytes);
  void close() { file_.close(); }

 private:
  CheckedDescriptor file_;
};

}  // namespace seemalloc::os
