// HugePageSetting: whether the system and the process want huge pages of 2 MiB at all.
//
// A fault that takes a huge page asks for all of this in the kernel; MADV_COLLAPSE does not, so its caller has to. The settings
// may change at any time. Their files stay open, out of the program's way: opening one takes for a moment a number which
// the program may expect. What cannot be read counts as no. No allocation. Threads: an object has one user at a time.
#pragma once

#include "core/os/descriptor.h"

namespace seemalloc::os {

class HugePageSetting {
 public:
  static constexpr const char* kFolder = "/sys/kernel/mm/transparent_hugepage";

  // Not `never`, for the process neither (PR_SET_THP_DISABLE), and the kernel's huge pages are of 2 MiB.
  bool allows(const char* folder = kFolder);
  void close();

 private:
  enum class Size { kUnknown, kOurs, kOther };

  bool size_is_ours(const char* folder);

  Size size_ = Size::kUnknown;
  Descriptor all_;  // for all sizes
  Descriptor one_;  // for this size, since Linux 6.8; may refer to the other
};

}  // namespace seemalloc::os
