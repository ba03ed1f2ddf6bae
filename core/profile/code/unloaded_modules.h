// Modules that were unloaded while recorded stacks contain their code.
//
// Another module may be loaded at the same addresses, and the allocations of the first one would
// then be charged to it. So when a module is unloaded, its return addresses in the recorded stacks
// are moved to addresses at which nothing is ever loaded. A profile has a mapping for these
// addresses, with the module's file and build id.
// Called by dlclose (core/api/cpu/dlclose_profiled.cc), before and after the C library's dlclose;
// read by the profile writer. Threads: any. A sample that another thread takes in a module that it
// has just loaded at these addresses may be moved, too.
// Invariants: 1. no walk matches a stack that was moved, since its addresses are not those of any
// code; 2. a module has one range of addresses, regardless of how often it is loaded and unloaded,
// so its stacks are the same in every profile; 3. the lock is held during calls into the dynamic
// linker. Fork takes the lock, so the child inherits no lock of the dynamic linker that is held by
// us. A thread never waits long for the lock, since it may hold one of the dynamic linker's locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/code/build_id.h"
#include "core/profile/sampling/relocated_code.h"
#include "core/profile/sampling/stack_table.h"

namespace seemalloc::profile {

// There is no code at these addresses, and no Python function (python_pc.h): addresses of programs
// end below 2^56.
inline constexpr uintptr_t kUnloadedCode = uintptr_t{0x71} << 56,
                           kUnloadedCodeEnd = uintptr_t{0x72} << 56;
inline bool is_unloaded_code(uintptr_t address) {
  return address >= kUnloadedCode && address < kUnloadedCodeEnd;
}

// A range of code of an unloaded module.
struct UnloadedCode {
  uintptr_t start, limit;  // its addresses in stacks now
  uint64_t file_offset;
  const char* path;
  size_t path_bytes;
  BuildId build_id;
  size_t times;  // how often it was unloaded
};

// All of them, sorted by address; more may be added at any time. Takes no lock.
size_t unloaded_count();
const UnloadedCode& unloaded_code(size_t number);

// How often stacks could not be moved, or not any more: their addresses may belong to another
// module now.
uint64_t unmoved_unloads();

// Stacks stored outside the tables. Called under the lock of this file.
struct ExternalStacks {
  bool (*any_in)(const RelocatedCode& code);  // moved_to is not known yet; called before `move`
  void (*move)(const RelocatedCode& code);
};

// Compares the loaded modules with those of the last call, and moves the stacks of modules unloaded
// since then, in the table and in others.
// `just_gone`: the missing modules were loaded until a moment ago, so a module that overlaps them
// has no stacks yet. Otherwise the stacks of an overlapped module are not moved but counted.
// `others` may be null.
void update_unloaded_modules(bool just_gone, StackTable& table, const ExternalStacks* others);
// Counts a failure to move stacks.
void count_unmoved_stacks();

void lock_unloaded_for_fork();
void unlock_unloaded_after_fork();

}  // namespace seemalloc::profile
