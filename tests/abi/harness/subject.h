// The allocator under test: the one that serves this very process.
//
// The runner (CMakeLists.txt) names it in EXPECT_SEEMALLOC:
//   unset              whatever is there; how a test proves itself against glibc
//   libseemalloc.so    (or another file name) malloc must come from that file
//   static             malloc must be part of the program
// main() in subject.cc looks first, so a preload that failed cannot pass for a success.
#pragma once

#include <cstddef>

namespace conform {

// True when the run is about seemalloc: our own messages and promises beyond glibc's are then checked too.
bool is_seemalloc();
bool is_static();
// The address of a function by name as the whole program sees it, or null.
void* find(const char* name);
// True when the function of that name is the subject's.
bool is_ours(const char* name);
// A value the compiler knows nothing about: it can neither fold nor warn.
template <class T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}
// Resident bytes of this process.
size_t resident_bytes();

}  // namespace conform
