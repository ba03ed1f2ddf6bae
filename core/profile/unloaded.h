// Modules that have been unloaded while stacks of theirs are kept.
//
// Another module may be loaded where one has been, and all that the first one holds would be charged to the second. So when a
// module goes, its return addresses in the kept stacks are moved to addresses at which nothing is ever loaded, and a profile has
// a mapping for these, with the module's file and build id.
// Called by dlclose (core/api/dlclose_profiled.cc), before and after the C library's; read by who writes a profile. Threads: any; a
// sample that another one takes in a module that it has just loaded there may be moved too.
// Invariants: 1. a stack that was moved is found by no walk any more, since its addresses are no code's; 2. a module has one
// place, however often it comes and goes: its stacks are the same in every profile; 3. the lock is held while the dynamic linker is
// asked, so that fork, which takes it, leaves the child no lock of the dynamic linker's that we hold; it is never waited for for long,
// since who waits may hold one of these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/build_id.h"
#include "core/profile/moved_code.h"

namespace seemalloc::profile {

// No code lies there, and no function of Python's (python_pc.h): addresses of programs end below 2^56.
inline constexpr uintptr_t kUnloadedCode = uintptr_t{0x71} << 56, kUnloadedCodeEnd = uintptr_t{0x72} << 56;
inline bool is_unloaded_code(uintptr_t address) { return address >= kUnloadedCode && address < kUnloadedCodeEnd; }

// A range of code of a module that is gone.
struct UnloadedCode {
  uintptr_t start, limit;  // where its stacks have it now
  uint64_t file_offset;
  const char* path;
  size_t path_bytes;
  BuildId build_id;
  size_t times;  // that it went
};

// All of them, by address; there may soon be more. No lock.
size_t unloaded_count();
const UnloadedCode& unloaded_code(size_t number);

// Times that stacks could not be moved, or not any more: their addresses may be another module's now.
uint64_t unloaded_without_room();

// Stacks that are kept elsewhere. Called under the lock of this file.
struct OtherStacks {
  bool (*any_in)(const MovedCode& code);  // moved_to is not known yet. Comes before `move`
  void (*move)(const MovedCode& code);
};

// Looks at what is loaded now; stacks of what has gone since the last look are moved. `just_gone`: what is missing has been there until
// a moment ago, so that what lies in its place has no stacks yet. Else such stacks are left to it, and counted. `others` may be null.
void look_at_modules(bool just_gone, const OtherStacks* others = nullptr);
// Somebody could not move theirs.
void count_unmoved();

void lock_unloaded_for_fork();
void unlock_unloaded_after_fork();

}  // namespace seemalloc::profile
