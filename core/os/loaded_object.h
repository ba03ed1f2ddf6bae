// The objects that the dynamic linker has loaded (the program, shared libraries), in the order in which it searches them, and their
// dynamic symbols. All of it is read from memory: no call by name, which the program could have replaced, and no lock.
//
// Threads: the list changes while an object is opened or closed. REQUIRES: no other thread can do that: while the process starts, or in a
// constructor, where the calling thread holds the linker's lock.
// Empty in a static program, and with a C library that has no _r_debug (musl).
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

struct link_map;

namespace seemalloc::os {

class LoadedObject {
 public:
  LoadedObject() = default;
  explicit LoadedObject(const link_map* map);

  bool exists() const { return map_ != nullptr; }
  // It contains this code.
  bool is_this() const;
  LoadedObject next() const;

  // The defined function of this name; null: none. A name may be there in several versions: `behind` one of them is the next.
  const Elf64_Sym* function(const char* name, const Elf64_Sym* behind = nullptr) const;
  bool defines(const char* name) const { return function(name) != nullptr; }
  uintptr_t base() const { return base_; }
  uintptr_t address_of(const Elf64_Sym* function) const { return base_ + function->st_value; }
  // 0: none.
  uintptr_t address_of(const char* name) const;

  // From now on the dynamic linker finds `target` where it looks up this function in this object. What was bound before stays bound.
  struct Redirection {
    const Elf64_Sym* function;
    uintptr_t target;
  };
  // False when the symbol table cannot be written: nothing has changed.
  bool redirect(const Redirection* redirections, size_t count) const;

 private:
  uintptr_t pointer(const Elf64_Dyn& entry) const;
  const Elf64_Sym* check(uint32_t index, const char* name) const;

  const link_map* map_ = nullptr;
  uintptr_t base_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  const char* names_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* hash_ = nullptr;
  uintptr_t tables_end_ = 0;  // below it, from the symbols on, there is no code
};

// The first one of the list (there is one for each namespace) that has this code; where none has, of the program's.
LoadedObject first_loaded_object();

}  // namespace seemalloc::os
