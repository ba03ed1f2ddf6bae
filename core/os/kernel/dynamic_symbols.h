// The functions and variables that an ELF object in memory defines for others: an object that the
// dynamic linker has loaded, or the vDSO.
//
// Threads: any, signal handlers included. It reads the object's tables and calls nothing.
#pragma once

#include <elf.h>

#include <cstdint>

namespace seemalloc::os {

// The address in an entry of a dynamic section. glibc relocates these entries in place, but not
// those of a read-only section (the vDSO's).
inline uintptr_t address_in(const Elf64_Dyn& entry, uintptr_t base) {
  return entry.d_un.d_ptr < base ? base + entry.d_un.d_ptr : entry.d_un.d_ptr;
}

class DynamicSymbols {
 public:
  DynamicSymbols() = default;
  // `base` is the difference between the object's addresses in memory and those in its file.
  DynamicSymbols(const Elf64_Dyn* dynamic, uintptr_t base);

  // Finds the defined function with this name; null if there is none. A name may have several
  // versions: this returns the first one after the symbol `behind`.
  const Elf64_Sym* function(const char* name, const Elf64_Sym* behind = nullptr) const {
    return find(name, behind, false);
  }
  uintptr_t base() const { return base_; }
  uintptr_t address_of(const Elf64_Sym* symbol) const { return base_ + symbol->st_value; }
  // 0: none.
  uintptr_t address_of(const char* function) const;
  uintptr_t address_of_variable(const char* name) const;

 private:
  const Elf64_Sym* find(const char* name, const Elf64_Sym* behind, bool is_variable) const;
  const Elf64_Sym* check(uint32_t index, const char* name, bool is_variable) const;

  uintptr_t base_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  const char* names_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;  // DT_GNU_HASH, or null
  const uint32_t* hash_ = nullptr;      // DT_HASH, or null
};

}  // namespace seemalloc::os
