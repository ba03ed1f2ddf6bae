#include "core/profile/unwind/signal_return.h"

#include <signal.h>
#include <ucontext.h>

#include "core/os/kernel/read_memory.h"

namespace seemalloc::profile {
namespace {

#if defined(__x86_64__)
// mov $15, %rax; syscall
constexpr uint8_t kReturnCode[] = {0x48, 0xC7, 0xC0, 0x0F, 0x00, 0x00, 0x00, 0x0F, 0x05};
// The kernel's frame starts with the ucontext, because the return address in front of it has been
// popped.
constexpr size_t kContextOffset = 0;
constexpr size_t kRegistersOffset = offsetof(ucontext_t, uc_mcontext);
// DWARF numbers in the order of the kernel's struct sigcontext.
constexpr unsigned kOrder[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
#elif defined(__aarch64__)
// mov x8, #139; svc #0
constexpr uint8_t kReturnCode[] = {0x68, 0x11, 0x80, 0xD2, 0x01, 0x00, 0x00, 0xD4};
constexpr size_t kContextOffset = sizeof(siginfo_t);
// After the fault's address.
constexpr size_t kRegistersOffset = offsetof(ucontext_t, uc_mcontext) + sizeof(uint64_t);
constexpr unsigned kOrder[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
#endif
static_assert(sizeof(kOrder) / sizeof(kOrder[0]) == kRegisterCount);

}  // namespace

bool is_signal_return(uintptr_t pc) {
  uint8_t code[sizeof(kReturnCode)];
  if (!os::read_memory(reinterpret_cast<const void*>(pc), code, sizeof(code))) return false;
  return __builtin_memcmp(code, kReturnCode, sizeof(code)) == 0;
}

bool leave_signal_frame(Registers* registers, StackMemory& memory) {
  uintptr_t saved = registers->sp() + kContextOffset + kRegistersOffset;
  Registers interrupted;
  interrupted.known = 0;
  for (unsigned i = 0; i < kRegisterCount; i++) {
    uintptr_t value;
    if (!memory.read(saved + i * sizeof(uintptr_t), &value)) return false;
    interrupted.set(kOrder[i], value);
  }
  *registers = interrupted;
  return true;
}

Registers interrupted_registers(const void* ucontext) {
  uintptr_t saved[kRegisterCount];
  __builtin_memcpy(saved, static_cast<const char*>(ucontext) + kRegistersOffset, sizeof(saved));
  Registers registers;
  registers.known = 0;
  for (unsigned i = 0; i < kRegisterCount; i++) registers.set(kOrder[i], saved[i]);
  return registers;
}

}  // namespace seemalloc::profile
