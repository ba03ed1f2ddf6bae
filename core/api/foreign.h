// Pointers that are not ours: blocks of another allocator (next_allocator.h), and garbage.
//
// A block goes to its allocator: to glibc's where the memory around it reads like a chunk in use; to one that cannot be asked where
// the memory might be any allocator's. Everything else ends the program with one line, which says where the pointer leads, as glibc would;
// with foreign:report the program goes on, with foreign:fatal blocks of others are misuse, too.
// Threads: any.
#pragma once

#include <cstddef>

namespace seemalloc {

void free_foreign(void* p);
void* reallocate_foreign(void* p, size_t bytes);
size_t foreign_usable_bytes(void* p);

}  // namespace seemalloc
