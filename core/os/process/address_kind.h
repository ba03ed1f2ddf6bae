// Describes an address outside of the heap, for the message about a pointer that the program freed
// by mistake.
//
// Threads: any. classify_address() opens and reads /proc/thread-self/maps; can_read() makes one
// futex call.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc::os {

enum class AddressKind : uint8_t {
  kUnknown,  // no /proc, or no free descriptor
  kUnmapped,
  kNoAccess,        // mapped, but not readable
  kOwnStack,        // of the calling thread
  kOwnStackOrData,  // or thread-local data: both are in one mapping, except for the main thread
  kMainStack,       // the main thread's, and the caller is another thread
  kCHeap,           // memory of brk, which the C library's malloc uses
  kCode,            // of a program or library, as are the next two
  kStaticData,
  kConstantData,
  kFile,  // another file
  // mmap: memory of the program, another thread's stack, thread-local data, another allocator's
  // memory.
  kAnonymous,
  kOther,  // the kernel's, such as [vdso]
};

// `file` gets the path of the mapping, or the name that the kernel gives it. It stays empty if the
// mapping has none.
AddressKind classify_address(uintptr_t address, Text& file);

// Appends words for the end of a line: "static data of /usr/bin/x". Appends nothing if the place is
// unknown.
void print_address_kind(AddressKind place, const char* file, Text& out);

// Whether the word at `address`, a multiple of four, can be read. Uses a futex call that does not
// wait. A seccomp filter of a program with locks allows it.
bool can_read(uintptr_t address);

}  // namespace seemalloc::os
