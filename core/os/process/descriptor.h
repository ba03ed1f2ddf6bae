// CheckedDescriptor: a long-lived file descriptor of this library. The program may close it and
// reuse its number for its own file, so is_ours() checks it before each use. Threads: its owner's.
#pragma once

#include "core/os/kernel/files.h"

namespace seemalloc::os {

struct CheckedDescriptor {
  int fd = -1;
  FileIdentity identity;

  void set(int number) {
    fd = number;
    identity = os::identity(number);
  }
  bool is_ours() const { return fd >= 0 && os::identity(fd) == identity; }
  void close() {
    if (is_ours()) close_file(fd);
    fd = -1;
  }
};

}  // namespace seemalloc::os
