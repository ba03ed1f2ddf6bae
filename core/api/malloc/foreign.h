// Pointers that were not allocated by seemalloc: blocks of another allocator (other_allocators.h),
// and invalid pointers.
//
// A block is passed to its allocator: to glibc's if the memory around it looks like an allocated
// chunk; to the unknown allocator if the memory may be a block at all. Any other pointer ends the
// program, as with glibc, with one line that describes the memory it points to. foreign:report
// prints the line and lets the program continue. With foreign:fatal another allocator's block ends
// the program, too.
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc {

void free_foreign(void* p);
// `allocate` makes the block in our heap to which this one moves.
void* reallocate_foreign(void* p, size_t bytes, void* (*allocate)(size_t bytes));
size_t foreign_usable_bytes(void* p);

}  // namespace seemalloc
