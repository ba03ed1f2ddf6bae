// Finds the loaded module that contains a pc, and that module's .eh_frame_hdr.
//
// Uses glibc's _dl_find_object (≥ 2.35: no lock, 5 ns) if it exists, otherwise a table of our own
// (module_table.h). The code of a static program is found by its headers. The function is looked up
// in glibc's own symbols: a library in front of glibc may define the name, with a function that
// allocates or uses thread-local memory, which the helper thread does not have.
// Called by the unwinder. Threads: any, including signal handlers; takes no lock for which another
// thread waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/code/module.h"

struct link_map;

namespace seemalloc::profile {

// How often a module was unloaded while recorded stacks contained its code (unloaded_modules.h).
// Information cached earlier about code at its addresses may then be about another module.
extern std::atomic<uint64_t> modules_unloaded;

// Returns false if `pc` is in no known module: generated code, or a bad pc.
bool find_module(uintptr_t pc, Module* module);

// Looks up glibc's _dl_find_object. Called before the first capture. Requires the same as
// LoadedObject (core/os/process/loaded_object.h).
void find_dynamic_linker_lookup();

// Records the modules that were loaded with the program, for Module::loaded_with_program. Called
// once, by this library's constructor.
void record_start_modules();

// Returns the dynamic linker's entry for the object that contains this code. Returns null if there
// is none, or if the C library has no lock-free lookup. Requires: the object stays loaded.
const link_map* loaded_object_of(uintptr_t pc);

// In a forked child: another thread of the parent may have been making the index of a static
// program.
void reset_static_program();

// Whether [start, end) contains code that is never unloaded, other than the main program's.
bool contains_permanent_code(uintptr_t start, uintptr_t end);

// Whether this code was loaded as a shared object of its own; if so, sets `*start` and `*end` to
// its bounds.
bool own_library_bounds(uintptr_t* start, uintptr_t* end);

// A cache of the most recent modules of one capture. They stay loaded during the capture, because
// their code is on the stack.
class ModuleCache {
 public:
  // Returns null if no module contains `pc`.
  const Module* find(uintptr_t pc) {
    if (pc - last_used_->start < last_used_->end - last_used_->start) return last_used_;
    return find_slow(pc);
  }

 private:
  const Module* find_slow(uintptr_t pc);

  static constexpr unsigned kEntries = 4;
  Module entries_[kEntries];
  unsigned next_ = 0;
  Module* last_used_ = &entries_[0];
};

#ifdef SEEMALLOC_DEBUG
// Set by tests to simulate a C library without _dl_find_object.
extern std::atomic<bool> without_dl_find_object;
#endif

}  // namespace seemalloc::profile
