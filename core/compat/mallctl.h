// jemalloc's names of figures and settings: "stats.allocated", "arena.0.purge" and so on, by name and by number (MIB).
//
// Who calls: the exported functions in jemalloc.cc. What each name does here: docs/compat.md. A number that stands for an arena, a size
// class or a cache keeps its place in the MIB, so that a program may put another there.
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc::compat {

// As jemalloc's manual says: 0, or ENOENT (no such name), EINVAL (a value of the wrong size or out of range), EPERM (not to be read or
// not to be written), EAGAIN (memory was refused), EFAULT (could not be done).
int control(const char* name, void* old_value, size_t* old_bytes, const void* new_value, size_t new_bytes);
int control_by_mib(const size_t* mib, size_t length, void* old_value, size_t* old_bytes, const void* new_value,
                   size_t new_bytes);
// *length: the room at `mib`, then how much of it was used.
int name_to_mib(const char* name, size_t* mib, size_t* length);

// How many names there are, and each, for tests and documentation.
size_t control_names();
const char* control_name(size_t index);

// The bytes that a block of `bytes` takes; 0 where that is more than can be.
size_t good_size(size_t bytes, size_t alignment);
// Everything free goes back to the system.
size_t purge_everything();

}  // namespace seemalloc::compat
