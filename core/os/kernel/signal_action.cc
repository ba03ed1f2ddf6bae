#include <signal.h>

#include <cstdint>

#include "core/os/kernel/signal_mask.h"

namespace seemalloc::os {

#if !defined(__SANITIZE_THREAD__)

namespace {

// The kernel's struct sigaction, on x86-64 and aarch64.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void (*restorer)();
  SignalMask mask;
};

#if defined(__x86_64__)
// The code to which a handler returns; the kernel requires it. Without unwind information, as for
// glibc's: unwinders recognise these instructions. The nop is there for unwinders that look up the
// address in front of a return address.
extern "C" void seemalloc_signal_return();
__asm__(R"(
  .pushsection .text.seemalloc_signal_return, "ax", @progbits
  .hidden seemalloc_signal_return
  .globl seemalloc_signal_return
  .type seemalloc_signal_return, @function
  .p2align 4
  nop
seemalloc_signal_return:
  mov $15, %rax
  syscall
  .size seemalloc_signal_return, . - seemalloc_signal_return
  .popsection
)");
constexpr unsigned long kRestorerFlag = 0x04000000;  // SA_RESTORER
#endif

// Filters allow this call, since every program makes it: so it does not count as a call of ours.
bool exchange_action(int signal, const KernelAction* fresh, KernelAction* old) {
  return !sys_failed(
      raw_sys(SYS_rt_sigaction, signal, as_long(fresh), as_long(old), sizeof(SignalMask), 0, 0));
}

}  // namespace

bool get_action(int signal, SignalAction* action) {
  KernelAction now{};
  if (!exchange_action(signal, nullptr, &now)) return false;
  *action = {now.handler, static_cast<int>(now.flags), now.mask};
  return true;
}

bool set_action(int signal, const SignalAction& action) {
  KernelAction fresh{action.handler, static_cast<unsigned long>(action.flags), nullptr,
                     action.mask};
#if defined(__x86_64__)
  fresh.flags |= kRestorerFlag;
  fresh.restorer = seemalloc_signal_return;
#endif
  return exchange_action(signal, &fresh, nullptr);
}

#else

// The sanitizer must see each call.
bool get_action(int signal, SignalAction* action) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) != 0) return false;
  SignalMask mask;
  __builtin_memcpy(&mask, &now.sa_mask, sizeof(mask));
  *action = {reinterpret_cast<void*>(now.sa_handler), now.sa_flags, mask};
  return true;
}

bool set_action(int signal, const SignalAction& action) {
  struct sigaction fresh {};
  fresh.sa_handler = reinterpret_cast<void (*)(int)>(action.handler);
  fresh.sa_flags = action.flags;
  __builtin_memcpy(&fresh.sa_mask, &action.mask, sizeof(action.mask));
  return sigaction(signal, &fresh, nullptr) == 0;
}

#endif

}  // namespace seemalloc::os
