// The table of jemalloc's names and of who answers each.
//
// Who calls: mallctl.cc, which finds the row. A row's place in the table is in the MIBs that a program keeps.
// Threads: any.
#pragma once

#include <cstddef>

#include "core/compat/control_call.h"

namespace seemalloc::compat {

struct ControlRow {
  const char* name;  // # stands for a number
  int (*handle)(ControlCall& call);
};

struct ControlRows {
  const ControlRow* first;
  size_t count;
  const ControlRow* begin() const { return first; }
  const ControlRow* end() const { return first + count; }
};
ControlRows control_rows();

// From now on opt.… are what is in force at this moment. Called at load.
void keep_start();

}  // namespace seemalloc::compat
