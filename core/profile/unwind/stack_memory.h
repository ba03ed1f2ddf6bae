// StackMemory: reads of the stack that cannot fault, and almost never cost a system call.
//
// The thread's own stack, from the lowest page seen in use up to its anchor (the thread's control
// block, or the kernel's start-up data above main), is probed once and then read in place. Any
// other stack (signal stack, fibre, clone with its own stack) is probed page by page in every
// capture, because it may be gone at the next one.
// After a guess (see unwind.cc), other memory is not even assumed to stay mapped during the
// capture: it is copied, 512 bytes per system call.
// Called by the unwinder; an object serves one capture. Threads: 24 bytes of thread-local storage.
// Invariant: [low_, high_) was readable when probed in this capture, or belongs to the thread's own
// stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::profile {

class StackMemory {
 public:
  // Starts at stack pointer `sp`. If `sp` may not be the stack pointer of running code, is_mapped()
  // must be checked first.
  explicit StackMemory(uintptr_t sp) { switch_to(sp); }
  ~StackMemory() {
    if (SEEMALLOC_UNLIKELY(copy_ != nullptr)) os::release_scratch(copy_);
  }
  StackMemory(const StackMemory&) = delete;
  StackMemory& operator=(const StackMemory&) = delete;
  // Returns false if nothing is mapped at the start: interrupted code may have any value in that
  // register.
  bool is_mapped() const;

  // Reads the word at `address`. Returns false if nothing is mapped there.
  SEEMALLOC_ALWAYS_INLINE bool read(uintptr_t address, uintptr_t* value) {
    if (SEEMALLOC_LIKELY(covers(address))) {
      *value = load(address);
      return true;
    }
    return read_slow(address, value);
  }
  // Reads the word at `address` in place. Requires: covers(address). AddressSanitizer forbids reads
  // between the variables of other frames, which is where saved registers are.
  static SEEMALLOC_NO_TSAN __attribute__((no_sanitize("address"))) uintptr_t load(
      uintptr_t address) {
    uintptr_t value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));
    return value;
  }
  bool covers(uintptr_t address) const {
    return address >= low_ && address < high_ && high_ - address >= sizeof(uintptr_t);
  }

  // Follows a step from a frame at `sp` to its caller's frame, which ends at `cfa`. Returns true if
  // that is possible: higher up on this stack, or on another readable stack (a few times per
  // capture, and only if the frame's rule came from a table).
  bool follow(uintptr_t sp, uintptr_t cfa) {
    if (SEEMALLOC_LIKELY(cfa > sp && covers(cfa - sizeof(uintptr_t)))) return true;
    return follow_slow(sp, cfa);
  }
  // Follows a signal frame to the stack pointer of the interrupted code. Returns false if nothing
  // is mapped there.
  bool follow_signal(uintptr_t sp);

  bool is_own_stack() const { return own_; }  // the thread's own stack
  // The bounds of the thread's own stack, as far as it may be read in place; both 0 on another
  // stack.
  uintptr_t own_low() const { return own_ ? low_ : 0; }
  uintptr_t own_high() const { return own_ ? high_ : 0; }

  // From now on addresses are guesses: no other stack is entered, and outside the thread's own
  // stack only copies are read.
  void distrust();

 private:
  // A longer step leaves the stack.
  static constexpr size_t kMaxStepBytes = size_t{1} << 20;
  static constexpr unsigned kMaxSwitches = 4;

  void switch_to(uintptr_t sp);
  SEEMALLOC_COLD bool read_slow(uintptr_t address, uintptr_t* value);
  bool read_copy(uintptr_t address, uintptr_t* value);
  SEEMALLOC_COLD bool follow_slow(uintptr_t sp, uintptr_t cfa);

  uintptr_t low_ = 0;
  uintptr_t high_ = 0;
  bool own_ = false;  // on the thread's own stack
  bool trusted_ = true;
  unsigned switches_ = 0;
  // A copy of the aligned block of memory at copy_start_; 1: none yet. A block is within a page, so
  // it is mapped as a whole or not at all.
  static constexpr size_t kCopyBytes = 512;
  uintptr_t copy_start_ = 1;
  uintptr_t* copy_ = nullptr;  // scratch memory, allocated at the first copy
};

}  // namespace seemalloc::profile
