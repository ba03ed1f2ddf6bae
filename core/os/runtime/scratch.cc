#include "core/os/runtime/scratch.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {

alignas(kScratchBytes) constinit char pieces[kScratchPieces][kScratchBytes] = {};
std::atomic<uint32_t> taken_pieces{0};
constexpr uint32_t kAllInUse = (uint32_t{1} << kScratchPieces) - 1;
// Pieces that this thread holds or is about to take: a signal handler that forks may interrupt it
// anywhere.
constinit thread_local unsigned held __attribute__((tls_model("initial-exec"))) = 0;

// Not counted among the heap's calls (calls.h): the trace hook for those may itself need the page.
SEEMALLOC_COLD void* map_piece() {
  long result =
      sys(SYS_mmap, 0, kScratchBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return sys_failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

}  // namespace

constinit thread_local bool in_nested_call = false;

void* acquire_scratch() {
  held++;
  uint32_t taken = taken_pieces.load(std::memory_order_relaxed), bit;
  do {
    if (SEEMALLOC_UNLIKELY(taken == kAllInUse)) {
      held--;
      return map_piece();
    }
    bit = ~taken & (taken + 1);
  } while (!taken_pieces.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire,
                                               std::memory_order_relaxed));
  return pieces[__builtin_ctz(bit)];
}

void release_scratch(void* piece) {
  auto offset = static_cast<size_t>(static_cast<char*>(piece) - pieces[0]);
  if (SEEMALLOC_UNLIKELY(offset >= sizeof(pieces))) {
    sys(SYS_munmap, as_long(piece), kScratchBytes);
    return;
  }
  uint32_t bit = uint32_t{1} << (offset / kScratchBytes);
  taken_pieces.fetch_and(~bit, std::memory_order_release);
  held--;
}

void release_scratch_in_child() {
  if (held == 0) taken_pieces.store(0, std::memory_order_relaxed);
}

}  // namespace seemalloc::os
