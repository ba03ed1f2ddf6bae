#include "core/os/kernel/vdso.h"

#include <elf.h>
#include <sys/auxv.h>

#include <atomic>

#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/dynamic_symbols.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {

using ClockFunction = int (*)(clockid_t, timespec*);

#if defined(__x86_64__)
constexpr const char* kClockName = "__vdso_clock_gettime";
#else
constexpr const char* kClockName = "__kernel_clock_gettime";
#endif

// Null until the first lookup; the system call if the vDSO has no such function.
std::atomic<ClockFunction> clock_function{nullptr};

int clock_by_system_call(clockid_t clock, timespec* out) {
  return static_cast<int>(sys(SYS_clock_gettime, clock, as_long(out)));
}

SEEMALLOC_COLD ClockFunction find_clock_function() {
  uintptr_t image = auxiliary_value(AT_SYSINFO_EHDR);
  uintptr_t found = image != 0 ? find_in_vdso(image, kClockName) : 0;
  ClockFunction function =
      found != 0 ? reinterpret_cast<ClockFunction>(found) : clock_by_system_call;
  clock_function.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

// Ignores symbol versions: the kernel has always had one symbol of each name.
uintptr_t find_in_vdso(uintptr_t image, const char* name) {
  const Elf64_Ehdr* header = reinterpret_cast<const Elf64_Ehdr*>(image);
  if (__builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_phentsize != sizeof(Elf64_Phdr))
    return 0;
  const Elf64_Phdr* segments = reinterpret_cast<const Elf64_Phdr*>(image + header->e_phoff);
  const Elf64_Phdr *loaded = nullptr, *dynamic = nullptr;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD && loaded == nullptr) loaded = &segments[i];
    if (segments[i].p_type == PT_DYNAMIC) dynamic = &segments[i];
  }
  if (loaded == nullptr || dynamic == nullptr) return 0;
  uintptr_t base = image + loaded->p_offset - loaded->p_vaddr;
  return DynamicSymbols(reinterpret_cast<const Elf64_Dyn*>(base + dynamic->p_vaddr), base)
      .address_of(name);
}

void read_clock(clockid_t clock, timespec* out) {
  ClockFunction function = clock_function.load(std::memory_order_relaxed);
  if (SEEMALLOC_UNLIKELY(function == nullptr)) function = find_clock_function();
  if (SEEMALLOC_UNLIKELY(function(clock, out) != 0)) clock_by_system_call(clock, out);
}

}  // namespace seemalloc::os
