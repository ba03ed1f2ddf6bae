// HugePageSetting: whether the settings of the system and the process allow huge pages of 2 MiB.
//
// For a page fault the kernel checks all of these settings; for MADV_COLLAPSE it does not, so its
// caller must. The system's settings may change at any time: a yes is read again after
// kKnownForNs, a no each time. No file stays open, and files are not opened more often, because
// opening a file takes for a moment a descriptor number that the program may expect. An unreadable
// setting counts as no. No allocation. Threads: an object has one user at a time.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::os {

class HugePageSetting {
 public:
  static constexpr const char* kFolder = "/sys/kernel/mm/transparent_hugepage";

  // True unless the system's setting is `never` or the process has disabled huge pages
  // (PR_SET_THP_DISABLE), and if the kernel's huge pages have 2 MiB.
  bool allows(uint64_t now_ns, const char* folder = kFolder);

  static constexpr uint64_t kKnownForNs = 60 * kSecondNs;

 private:
  enum class Size { kUnknown, kOurs, kOther };

  bool size_is_supported(const char* folder);

  Size size_ = Size::kUnknown;
  uint64_t allowed_until_ns_ = 0;  // when the system's setting must be read again
};

}  // namespace seemalloc::os
