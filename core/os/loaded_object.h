// The objects that the dynamic linker has loaded (the program, shared libraries), in the order in which it searches them.
//
// Everything is read from memory: there is no lock, and no call by a name that the program could have replaced.
// Threads: the list changes while an object is opened or closed. REQUIRES: no other thread can do that: while the process starts, or in a
// constructor, where the calling thread holds the linker's lock.
// Empty in a static program, and with a C library that has no _r_debug (musl).
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "core/os/dynamic_symbols.h"

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

  const DynamicSymbols& symbols() const { return symbols_; }
  bool defines(const char* name) const { return symbols_.function(name) != nullptr; }

  // From now on the dynamic linker finds `target` where it looks up this function in this object. Earlier bindings stay.
  struct Redirection {
    const Elf64_Sym* function;
    uintptr_t target;
  };
  // False when the symbol table cannot be written: nothing has changed.
  bool redirect(const Redirection* redirections, size_t count) const;

 private:
  uintptr_t end_of_tables() const;

  const link_map* map_ = nullptr;
  DynamicSymbols symbols_;
};

// The first object of the list that has this code (each namespace has a list); else of the program's list.
LoadedObject first_loaded_object();

}  // namespace seemalloc::os
