// FrameIndex: what .eh_frame_hdr would be, for a program that was linked without it: `gcc -static` leaves it out.
//
// Made once, from the program's own .eh_frame, which its file's section headers tell the place of (`strip` leaves those). 8 bytes per function;
// some ms for a hundred thousand of them. Threads: one makes it, any read; it stays. No lock, nothing but system calls: a signal handler
// may be the first to need it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/modules.h"

namespace seemalloc::profile {

struct FrameIndex {
  struct Entry {
    uint32_t function, description;  // from the module's start
  };
  size_t count;
  Entry entries[1];  // `count`, sorted by function

  // The address of the entry (FDE) of the last function that starts at or before `pc`; 0 when there is none.
  uintptr_t find(const Module& program, uintptr_t pc) const;
};

// Null when the file cannot be read, or there is no .eh_frame, or memory is refused. Requires: `program` is the main program's, never unloaded.
const FrameIndex* make_frame_index(const Module& program);

}  // namespace seemalloc::profile
