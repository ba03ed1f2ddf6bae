#include "core/os/kernel/auxiliary_vector.h"

#include <elf.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

// Set by glibc's dynamic linker to the address of argc; null with musl. In a static program it is
// another address near there.
extern void* __libc_stack_end __attribute__((weak));
// This object's dynamic section, provided by the linker; a static program has none.
extern Elf64_Dyn _DYNAMIC[] __attribute__((weak, visibility("hidden")));

namespace seemalloc::os {

namespace {

constexpr Elf64_auxv_t kNoVector{};
// Null until the first lookup.
std::atomic<const Elf64_auxv_t*> vector{nullptr};

bool is_dynamically_linked() {
  if (_DYNAMIC == nullptr) return false;
  for (const Elf64_Dyn* entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED) return true;
  }
  return false;
}

// A program may have changed the words in front of the vector before this library was loaded.
bool is_vector(const Elf64_auxv_t* entries) {
  constexpr size_t kMaxEntries = 64, kMaxType = 1024;
  bool has_page_size = false, has_headers = false;
  for (size_t i = 0; i < kMaxEntries && entries[i].a_type < kMaxType; i++) {
    has_page_size |= entries[i].a_type == AT_PAGESZ;
    has_headers |= entries[i].a_type == AT_PHDR;
    if (entries[i].a_type == AT_NULL) return has_page_size && has_headers;
  }
  return false;
}

// The stack starts with argc, the arguments, null, the environment, null, and the vector. unsetenv
// moves the variables behind the removed one down, so that there are several nulls.
SEEMALLOC_COLD const Elf64_auxv_t* find_vector() {
  constexpr uintptr_t kMaxArguments = 1 << 24;
  if (&__libc_stack_end == nullptr || __libc_stack_end == nullptr || !is_dynamically_linked())
    return &kNoVector;
  auto* word = static_cast<const uintptr_t*>(__libc_stack_end);
  uintptr_t arguments = *word++;
  if (arguments > kMaxArguments || word[arguments] != 0) return &kNoVector;
  word += arguments + 1;
  while (*word != 0) word++;
  while (*word == 0) word++;
  auto* found = reinterpret_cast<const Elf64_auxv_t*>(word);
  return is_vector(found) ? found : &kNoVector;
}

}  // namespace

unsigned long auxiliary_value(unsigned long type) {
  const Elf64_auxv_t* entry = vector.load(std::memory_order_relaxed);
  if (SEEMALLOC_UNLIKELY(entry == nullptr)) {
    entry = find_vector();
    vector.store(entry, std::memory_order_relaxed);
  }
  if (entry == &kNoVector) return getauxval(type);
  while (entry->a_type != AT_NULL && entry->a_type != type) entry++;
  return entry->a_type == type ? entry->a_un.a_val : 0;
}

}  // namespace seemalloc::os
