#include "core/profile/unwind/stack_memory.h"

#include <sys/auxv.h>

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/runtime/scratch.h"
#include "core/os/runtime/thread_pointer.h"

namespace seemalloc::profile {
namespace {

// A stack deeper than this at its first capture is probed page by page during each walk.
constexpr size_t kMaxProbeBytes = 8 * MiB;
// A thread that often runs on other stacks near its own stops searching for its own.
constexpr uint32_t kMaxFailures = 8;

struct OwnStack {
  uintptr_t low;  // a page boundary
  uintptr_t high;
  uint32_t failures;
};
constinit thread_local OwnStack own_stack{0, 0, 0};

bool page_is_readable(uintptr_t page) {
  char byte;
  return os::read_memory(reinterpret_cast<const void*>(page), &byte, 1);
}

// Whether every page of [low, high) is readable; `low` is a page boundary. One system call per
// page, once per thread. Returning false after such calls counts as a failure.
bool is_readable(uintptr_t low, uintptr_t high) {
  if (high - low > kMaxProbeBytes) return false;
  for (uintptr_t page = low; page < high; page += os::page_bytes()) {
    if (page_is_readable(page)) continue;
    own_stack.failures = own_stack.failures + 1;
    return false;
  }
  return true;
}

// Finds the end of the stack that contains `sp`, if that is the thread's own: the C libraries put a
// thread's control block at the top of its stack, and the kernel puts 16 random bytes above main's.
// Both stay for the thread's life.
bool find_own_stack(uintptr_t sp, uintptr_t page) {
  for (uintptr_t anchor :
       {os::thread_pointer(), static_cast<uintptr_t>(os::auxiliary_value(AT_RANDOM))}) {
    if (anchor <= sp || !is_readable(page, anchor)) continue;
    // A signal handler that interrupts this code sees an empty range or the whole range: low < high
    // only at the end.
    own_stack.low = UINTPTR_MAX;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own_stack.high = round_down(anchor, sizeof(uintptr_t));
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own_stack.low = page;
    return true;
  }
  return false;
}

bool is_on_own_stack(uintptr_t sp, uintptr_t page) {
  if (sp >= own_stack.low && sp < own_stack.high) return true;
  if (sp >= own_stack.high && own_stack.high != 0) return false;
  if (own_stack.failures >= kMaxFailures) return false;
  if (own_stack.high == 0) return find_own_stack(sp, page);
  if (!is_readable(page, own_stack.low)) return false;
  own_stack.low = page;  // deeper than ever before
  return true;
}

}  // namespace

void StackMemory::switch_to(uintptr_t sp) {
  uintptr_t page = round_down(sp, os::page_bytes());
  own_ = is_on_own_stack(sp, page);
  low_ = own_ ? own_stack.low : page;
  high_ = own_ ? own_stack.high : page + os::page_bytes();
  if (!own_ && !trusted_) low_ = high_ = 0;
}

bool StackMemory::is_mapped() const { return own_ || page_is_readable(low_); }

void StackMemory::distrust() {
  trusted_ = false;
  if (!own_) low_ = high_ = 0;
}

bool StackMemory::read_slow(uintptr_t address, uintptr_t* value) {
  if (address % sizeof(uintptr_t) != 0) return false;
  if (own_ || !trusted_) return read_copy(address, value);
  if (!os::read_memory(reinterpret_cast<const void*>(address), value, sizeof(*value))) return false;
  // The read was the probe of its page. When walking up, the readable range grows; after a jump it
  // restarts.
  uintptr_t page = round_down(address, os::page_bytes());
  if (page != high_) low_ = page;
  high_ = page + os::page_bytes();
  return true;
}

bool StackMemory::read_copy(uintptr_t address, uintptr_t* value) {
  uintptr_t block = round_down(address, kCopyBytes);
  if (block != copy_start_) {
    copy_start_ = 1;
    if (copy_ == nullptr) copy_ = static_cast<uintptr_t*>(os::acquire_scratch());
    if (copy_ == nullptr ||
        !os::read_memory(reinterpret_cast<const void*>(block), copy_, kCopyBytes))
      return false;
    copy_start_ = block;
  }
  *value = copy_[(address - block) / sizeof(uintptr_t)];
  return true;
}

bool StackMemory::follow_slow(uintptr_t sp, uintptr_t cfa) {
  uintptr_t last_word = cfa - sizeof(uintptr_t);
  if (cfa < sizeof(uintptr_t)) return false;
  if (!own_ && cfa > sp && cfa - sp <= kMaxStepBytes) return true;
  if (covers(last_word) || !trusted_ || ++switches_ > kMaxSwitches) return false;
  if (!page_is_readable(round_down(last_word, os::page_bytes()))) return false;
  switch_to(last_word);
  return true;
}

bool StackMemory::follow_signal(uintptr_t sp) {
  if (covers(sp) && own_) return true;
  if (++switches_ > kMaxSwitches || !page_is_readable(round_down(sp, os::page_bytes())))
    return false;
  switch_to(sp);
  return true;
}

}  // namespace seemalloc::profile
