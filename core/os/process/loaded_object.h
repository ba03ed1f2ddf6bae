// The objects that the dynamic linker has loaded (the program, shared libraries), in its search
// order.
//
// Everything is read from memory, without locks and without calling a function that the program
// could have replaced. Threads: the list changes while an object is opened or closed. REQUIRES: no
// other thread can do that: call it while the process starts, or in a constructor, where the
// calling thread holds the linker's lock.
// The list is empty in a static program, and with a C library that has no _r_debug (musl).
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/dynamic_symbols.h"

struct link_map;

namespace seemalloc::os {

class LoadedObject {
 public:
  LoadedObject() = default;
  explicit LoadedObject(const link_map* map);

  bool exists() const { return map_ != nullptr; }
  // Whether it is the object that contains seemalloc.
  bool contains_seemalloc() const;
  LoadedObject next() const;

  const DynamicSymbols& symbols() const { return symbols_; }
  bool defines(const char* name) const { return symbols_.function(name) != nullptr; }

  struct Redirection {
    const Elf64_Sym* function;  // of this object
    uintptr_t target;
  };
  // Makes the dynamic linker find the targets when it looks up these functions in this object.
  // Earlier bindings stay. Returns false when the symbol table cannot be written; nothing has
  // changed then.
  bool redirect(const Redirection* redirections, size_t count) const;

 private:
  uintptr_t end_of_tables() const;

  const link_map* map_ = nullptr;
  DynamicSymbols symbols_;
};

// The first object of the list that contains seemalloc (each namespace has a list), or else of the
// program's list.
LoadedObject first_loaded_object();

}  // namespace seemalloc::os
