// PageResidence: which memory of the process is there and shared with nobody, as /proc/PID/pagemap tells.
//
// What a forked child shares is resident in both: touching or moving it makes a copy of it. No allocation. Threads: an object has one
// user at a time. In a forked child the file is still the parent's: close() first.
#pragma once

#include <cstddef>

#include "core/os/descriptor.h"

namespace seemalloc::os {

class PageResidence {
 public:
  // Bytes of [start, start + bytes) that are resident and mapped by this process only; 0 where nobody tells. Requires: whole OS
  // pages.
  size_t own_bytes(const void* start, size_t bytes);
  void close() { file_.close(); }

 private:
  Descriptor file_;
};

}  // namespace seemalloc::os
