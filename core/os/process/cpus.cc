#include "core/os/process/cpus.h"

#include "core/os/kernel/syscall.h"
#include "core/os/process/cgroup.h"

namespace seemalloc::os {

namespace {
unsigned affinity_count() {
  unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {};
  long bytes = sys(SYS_sched_getaffinity, 0, sizeof(mask), as_long(mask));
  unsigned count = 0;
  if (!sys_failed(bytes)) {
    for (unsigned long word : mask) {
      for (; word != 0; word &= word - 1) count++;
    }
  }
  return count == 0 ? 1 : count;
}
}  // namespace

unsigned cpu_count() {
  unsigned cpus = affinity_count();
  unsigned quota = cpus > 1 ? cpu_quota() : 0;
  return quota != 0 && quota < cpus ? quota : cpus;
}

}  // namespace seemalloc::os
