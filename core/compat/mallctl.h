// jemalloc's control names for statistics and settings ("stats.allocated", "arena.0.purge", …), by
// name and by number (MIB).
//
// Callers: the exported functions in jemalloc.cc. What each name does here: docs/compat.md. A
// number for an arena, a size class or a cache has its own element in the MIB, so that a program
// may replace it.
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc::compat {

// Returns the codes of jemalloc's manual: 0, ENOENT (no such name), EINVAL (a value of the wrong
// size or out of range), EPERM (cannot be read, or cannot be written), EAGAIN (memory was refused),
// EFAULT (the operation failed).
int control(const char* name, void* old_value, size_t* old_bytes, const void* new_value,
            size_t new_bytes);
int control_by_mib(const size_t* mib, size_t length, void* old_value, size_t* old_bytes,
                   const void* new_value, size_t new_bytes);
// *length: in, the number of elements at `mib`; out, the number used.
int name_to_mib(const char* name, size_t* mib, size_t* length);

// The number of names, and each of them, for tests and documentation.
size_t control_names();
const char* control_name(size_t index);

// The bytes that a block of `bytes` takes; 0 if no block can be that large.
size_t allocation_size(size_t bytes, size_t alignment);
// Returns all free memory to the OS. Returns the bytes returned.
size_t purge_everything();

}  // namespace seemalloc::compat
