// HugePageSetting: whether the settings of the system and the process allow huge pages of 2 MiB.
//
// For a page fault the kernel checks all of these settings; for MADV_COLLAPSE it does not, so its
// caller must. The settings may change at any time. Their files stay open at high descriptor
// numbers: opening a file takes for a moment a number that the program may expect. An unreadable
// setting counts as no. No allocation. Threads: an object has one user at a time.
#pragma once

#include "core/os/process/descriptor.h"

namespace seemalloc::os {

class HugePageSetting {
 public:
  static constexpr const char* kFolder = "/sys/kernel/mm/transparent_hugepage";

  // True unless the system's setting is `never` or the process has disabled huge pages
  // (PR_SET_THP_DISABLE), and if the kernel's huge pages have 2 MiB.
  bool allows(const char* folder = kFolder);
  void close();

 private:
  enum class Size { kUnknown, kOurs, kOther };

  bool size_is_supported(const char* folder);

  Size size_ = Size::kUnknown;
  CheckedDescriptor global_file_;  // for all sizes
  CheckedDescriptor size_file_;    // for this size, since Linux 6.8; may defer to the other file
};

}  // namespace seemalloc::os
