// Module: the bounds and unwind tables of one loaded module. Found by its code (modules.h).
#pragma once

#include <cstdint>

namespace seemalloc::profile {

struct FrameIndex;

struct Module {
  uintptr_t start = 0;
  uintptr_t end = 0;
  uintptr_t eh_frame_header = 0;            // 0: the module has none
  const FrameIndex* frame_index = nullptr;  // replaces the header in a static program
  uintptr_t tables_start = 0;  // the header and .eh_frame are in [tables_start, tables_end)
  uintptr_t tables_end = 0;
  // Well-mixed hash; differs between modules that are loaded at the same time.
  uint64_t identity_hash = 0;
  bool main_program = false;
  bool permanent = false;  // the main program, the C library or this one: never unloaded
  // Permanent, or loaded with the program: the dynamic linker never unloads these.
  bool loaded_with_program = false;
};

}  // namespace seemalloc::profile
