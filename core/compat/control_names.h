// The table of jemalloc's control names and their handlers.
//
// Caller: mallctl.cc, which finds the row. MIBs that a program keeps contain a row's index in the
// table.
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

// The values of the opt.… names are those in force now, from here on. Called at load.
void save_start_options();

}  // namespace seemalloc::compat
