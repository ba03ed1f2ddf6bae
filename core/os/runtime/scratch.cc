#include "core/os/runtime/scratch.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {

alignas(kScratchBytes) constinit char buffers[kScratchBuffers][kScratchBytes] = {};
std::atomic<uint32_t> taken_buffers{0};
constexpr uint32_t kAllInUse = (uint32_t{1} << kScratchBuffers) - 1;
// Buffers that this thread holds or is about to take: a signal handler that forks may interrupt it
// anywhere.
constinit thread_local unsigned held __attribute__((tls_model("initial-exec"))) = 0;

// Not counted among the heap's calls (calls.h): the trace hook for those may itself need the page.
SEEMALLOC_COLD void* map_buffer() {
  long result =
      sys(SYS_mmap, 0, kScratchBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return sys_failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

}  // namespace

constinit thread_local bool in_nested_call = false;

void* acquire_scratch() {
  held++;
  uint32_t taken = taken_buffers.load(std::memory_order_relaxed), bit;
  do {
    if (SEEMALLOC_UNLIKELY(taken == kAllInUse)) {
      held--;
      return map_buffer();
    }
    bit = ~taken & (taken + 1);
  } while (!taken_buffers.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire,
                                                std::memory_order_relaxed));
  return buffers[__builtin_ctz(bit)];
}

void release_scratch(void* buffer) {
  auto offset = static_cast<size_t>(static_cast<char*>(buffer) - buffers[0]);
  if (SEEMALLOC_UNLIKELY(offset >= sizeof(buffers))) {
    sys(SYS_munmap, as_long(buffer), kScratchBytes);
    return;
  }
  uint32_t bit = uint32_t{1} << (offset / kScratchBytes);
  taken_buffers.fetch_and(~bit, std::memory_order_release);
  held--;
}

void release_scratch_in_child() {
  if (held == 0) taken_buffers.store(0, std::memory_order_relaxed);
}

}  // namespace seemalloc::os
