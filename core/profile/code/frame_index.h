// FrameIndex: replaces .eh_frame_hdr for a program that was linked without one: `gcc -static` omits
// it.
//
// Made once from the program's own .eh_frame, which is found by the section headers of its file
// (`strip` keeps those). 8 bytes per function; takes some ms for a hundred thousand functions.
// Threads: one makes it, any read it; it is never freed. Takes no lock and only makes system calls,
// because a signal handler may be the first to need it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/code/module.h"

namespace seemalloc::profile {

struct FrameIndex {
  struct Entry {
    uint32_t function, description;  // relative to the module's start
  };
  size_t count;
  Entry entries[1];  // `count`, sorted by function

  // Returns the address of the entry (FDE) of the last function that starts at or before `pc`; 0 if
  // there is none.
  uintptr_t find(const Module& program, uintptr_t pc) const;
};

// Returns null if the file cannot be read, has no .eh_frame, or memory is refused. Requires:
// `program` is the main program, which is never unloaded.
const FrameIndex* make_frame_index(const Module& program);

}  // namespace seemalloc::profile
