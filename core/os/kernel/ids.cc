#include "core/os/kernel/ids.h"

#include <sys/auxv.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {
// The last known ids, used when the kernel may not be called. A forked child starts without.
constinit std::atomic<int> known_process{0};
constinit thread_local int known_thread __attribute__((tls_model("initial-exec"))) = 0;

// For a thread that started in a sandbox: not a real thread id, but unique among living threads.
int synthetic_thread_id() {
  constexpr uintptr_t kMaxThreads = 1 << 22, kBits = (1 << 30) - 1;
  return static_cast<int>(
      (reinterpret_cast<uintptr_t>(&known_thread) / alignof(max_align_t) & kBits) | kMaxThreads);
}
}  // namespace

void forget_ids_in_child() {
  known_process.store(0, std::memory_order_relaxed);
  known_thread = 0;
}

int process_id() {
  long id = sys(SYS_getpid);
  if (sys_failed(id)) return known_process.load(std::memory_order_relaxed);
  known_process.store(static_cast<int>(id), std::memory_order_relaxed);
  return static_cast<int>(id);
}

int thread_id() {
  long id = sys(SYS_gettid);
  if (!sys_failed(id)) known_thread = static_cast<int>(id);
  return known_thread != 0 ? known_thread : synthetic_thread_id();
}

bool is_privileged() { return auxiliary_value(AT_SECURE) != 0; }

}  // namespace seemalloc::os
