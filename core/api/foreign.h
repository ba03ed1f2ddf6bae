// Pointers that are not ours: blocks of another allocator (next_allocator.h), and garbage.
//
// A block goes back to its allocator: to glibc's if the memory around it looks like a chunk in use; to the unknown allocator if the memory
// may be a block at all. Any other pointer ends the program, as with glibc, with one line that says where the pointer leads.
// foreign:report prints the line and lets the program go on. With foreign:fatal another allocator's block ends the program, too.
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc {

void free_foreign(void* p);
void* reallocate_foreign(void* p, size_t bytes);
size_t foreign_usable_bytes(void* p);

}  // namespace seemalloc
