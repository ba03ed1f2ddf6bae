// Registers: the machine registers of one frame, by DWARF number, and how to take those of the
// running function.
//
// Called by the unwinder only. Threads: plain values on the unwinding thread's stack.
// Invariant: a register whose bit in `known` is clear has no value; a frame that needs it cannot be
// unwound.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::profile {

#if defined(__x86_64__)
inline constexpr unsigned kRegisterCount = 17;  // 0–15 general, 16 the return address column
inline constexpr unsigned kBx = 3, kFp = 6, kSp = 7, kR12 = 12, kPc = 16;
// Registers that a called function must preserve for its caller.
inline constexpr uint64_t kCalleeSaved = 1u << kBx | 1u << kFp | 0xFu << kR12;
#elif defined(__aarch64__)
inline constexpr unsigned kRegisterCount = 33;  // x0–x30, 31 sp, and 32 the pc
inline constexpr unsigned kX19 = 19, kFp = 29, kLr = 30, kSp = 31, kPc = 32;
inline constexpr uint64_t kCalleeSaved = 0x7FFull << kX19;  // x19–x29
#endif

inline constexpr uint64_t register_bit(unsigned number) { return uint64_t{1} << number; }

struct Registers {
  uintptr_t value[kRegisterCount];
  uint64_t known;

  bool has(unsigned number) const {
    return number < kRegisterCount && (known & register_bit(number)) != 0;
  }
  void set(unsigned number, uintptr_t to) { value[number] = to, known |= register_bit(number); }
  uintptr_t pc() const { return value[kPc]; }
  uintptr_t sp() const { return value[kSp]; }
  uintptr_t fp() const { return value[kFp]; }
};

// The code address in a return address: strips the signature of a signed one (aarch64 pointer
// authentication).
SEEMALLOC_ALWAYS_INLINE uintptr_t strip_pointer_authentication(uintptr_t address) {
#if defined(__aarch64__)
  register uintptr_t x30 __asm__("x30") = address;
  // Xpaclri; does nothing on processors without pointer authentication.
  __asm__("hint #7" : "+r"(x30));
  return x30;
#else
  return address;
#endif
}

// Takes the registers of the function into which it is inlined. They match the row of that
// function's unwind table (CFI) for the recorded pc.
SEEMALLOC_ALWAYS_INLINE void take_registers(Registers* registers) {
  uintptr_t* value = registers->value;
  uintptr_t pc;
#if defined(__x86_64__)
  __asm__ volatile(
      "movq %%rbx, 0x18(%1)\n\tmovq %%rbp, 0x30(%1)\n\tmovq %%rsp, 0x38(%1)\n\t"
      "movq %%r12, 0x60(%1)\n\tmovq %%r13, 0x68(%1)\n\tmovq %%r14, 0x70(%1)\n\tmovq %%r15, 0x78(%1)\n\t"
      "leaq 1f(%%rip), %0\n1:"
      : "=r"(pc)
      : "r"(value)
      : "memory");
#elif defined(__aarch64__)
  uintptr_t sp;
  __asm__ volatile(
      "stp x19, x20, [%2, #152]\n\tstp x21, x22, [%2, #168]\n\tstp x23, x24, [%2, #184]\n\t"
      "stp x25, x26, [%2, #200]\n\tstp x27, x28, [%2, #216]\n\tstp x29, x30, [%2, #232]\n\t"
      "mov %1, sp\n\tadr %0, 1f\n1:"
      : "=&r"(pc), "=&r"(sp)
      : "r"(value)
      : "memory");
  value[kSp] = sp;
#endif
  value[kPc] = pc;
  registers->known = kCalleeSaved | register_bit(kSp) | register_bit(kPc);
#if defined(__aarch64__)
  registers->known |= register_bit(kLr);
#endif
}

}  // namespace seemalloc::profile
