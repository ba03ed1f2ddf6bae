// Which loaded module a pc belongs to, and where that module's .eh_frame_hdr is.
//
// Asks glibc's _dl_find_object (≥ 2.35: no lock, 5 ns) where there is one, else a table of our own (module_table.h). A static program's
// own code is found by its headers.
// Called by the unwinder. Threads: any, signal handlers included; takes no lock that anyone waits for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

struct link_map;

namespace seemalloc::profile {

// How often a module has gone that kept stacks have (unloaded.h): what was remembered of code at its addresses is another's then.
extern std::atomic<uint64_t> unload_count;

struct FrameIndex;

struct Module {
  uintptr_t start = 0;
  uintptr_t end = 0;
  uintptr_t eh_frame_header = 0;  // 0: the module has none
  const FrameIndex* frame_index = nullptr;  // in its stead, of a static program
  uintptr_t tables_start = 0;     // the header and .eh_frame lie in [tables_start, tables_end)
  uintptr_t tables_end = 0;
  uint64_t identity = 0;          // well mixed; differs between modules that are loaded at the same time
  bool main_program = false;
  bool permanent = false;  // the main program, the C library or this one: never unloaded
  bool at_start = false;   // permanent, or loaded with the program: the dynamic linker never unloads these
};

// False when `pc` belongs to no module we know: code made at run time, or a bad pc.
bool find_module(uintptr_t pc, Module* module);

// Notes which modules were loaded with the program, for Module::at_start. Called once, by this library's constructor.
void note_modules_at_start();

// The dynamic linker's entry for the object with this code; null: none, or the C library does not tell without a lock. Requires: it stays loaded.
const link_map* loaded_object_of(uintptr_t pc);

// In the child of fork: another thread of the parent may have been making the index of a static program.
void reset_static_program();

// True when [start, end) holds code that is never unloaded, apart from the main program's.
bool holds_permanent_code(uintptr_t start, uintptr_t end);

// True when this code was loaded as a shared object of its own; `*start` and `*end` are then its bounds.
bool own_library(uintptr_t* start, uintptr_t* end);

// The last few modules of one capture. They stay loaded while it runs: their code is on the stack.
class ModuleMemo {
 public:
  // Null when no module holds `pc`.
  const Module* find(uintptr_t pc) {
    if (pc - last_->start < last_->end - last_->start) return last_;
    return find_slow(pc);
  }

 private:
  const Module* find_slow(uintptr_t pc);

  static constexpr unsigned kKept = 4;
  Module kept_[kKept];
  unsigned next_ = 0;
  Module* last_ = &kept_[0];
};

#ifdef SEEMALLOC_DEBUG
// Set by tests: behave as if the C library had no _dl_find_object.
extern std::atomic<bool> without_dl_find_object;
#endif

}  // namespace seemalloc::profile
