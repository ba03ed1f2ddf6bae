// Pointers that are not ours: blocks of the C library's own malloc (allocated before us, or through a library that binds
// to it directly), and garbage.
//
// Threads: any. A pointer is only handed to the next allocator when its memory looks like one of that allocator's
// blocks: glibc ends the program over anything else.
#pragma once

#include <cstddef>

namespace seemalloc {

// Looks up the next allocator's functions; at load time, where the dynamic linker may be called.
void find_next_allocator();

void free_foreign(void* p);
void* reallocate_foreign(void* p, size_t bytes);
size_t foreign_usable_bytes(void* p);

}  // namespace seemalloc
