#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

#ifdef SEEMALLOC_FAULT_INJECTION
std::atomic<long (*)(long number)> fault_hook{nullptr};
#endif

}  // namespace seemalloc::os
