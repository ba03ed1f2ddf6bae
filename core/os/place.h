// Tells what lies at an address outside of the heap, for the line about a pointer that the program freed by mistake.
//
// Threads: any. place_of() opens and reads /proc/thread-self/maps; can_read() makes one call of futex.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc::os {

enum class Place : uint8_t {
  kUnknown,  // there is no /proc, or no more descriptors
  kUnmapped,
  kNoAccess,        // mapped, and may not be read
  kOwnStack,        // of the calling thread
  kOwnStackOrData,  // or thread-local: in one mapping, but for the main thread
  kMainStack,       // the main thread's, and this is another one
  kCHeap,           // memory of brk, which the C library's malloc uses
  kCode,            // of a program or library, as are the next two
  kStaticData,
  kConstantData,
  kFile,       // another file
  kAnonymous,  // mmap's: the program's own, another thread's stack, thread-local data, another allocator's
  kOther,      // the kernel's: [vdso]
};

// `file` gets the path, or the kernel's name, of the mapping there. It stays empty where the mapping has none.
Place place_of(uintptr_t address, Text& file);

// Words for the end of a line: "static data of /usr/bin/x". Empty where it is unknown.
void print_place(Place place, const char* file, Text& out);

// Whether the word at `address`, a multiple of four, may be read. Asks by futex, which does not wait here. A seccomp filter of a program with
// locks allows it.
bool can_read(uintptr_t address);

}  // namespace seemalloc::os
