// The allocator under test: the one that serves this process.
//
// The runner (CMakeLists.txt) names it in EXPECT_SEEMALLOC:
//   unset              any allocator; used to validate a test against glibc
//   libseemalloc.so    (or another file name) malloc must come from that file
//   static             malloc must be part of the program
// main() in subject.cc checks this first, so a failed preload cannot pass as a success.
#pragma once

#include <cstddef>

namespace conform {

// True when the run tests seemalloc: seemalloc's own messages and guarantees beyond glibc's are
// then checked, too.
bool is_seemalloc();
bool is_static();
// The address of a function by name, as resolved for the whole program, or null.
void* find(const char* name);
// True when the allocator under test defines the function of that name.
bool is_defined_by_subject(const char* name);
// Hides a value from the optimiser: the compiler can neither fold it nor warn about it.
template <class T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}
// Resident bytes of this process.
size_t resident_bytes();

}  // namespace conform
