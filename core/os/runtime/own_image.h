// The bounds of the program or library that contains seemalloc, as the linker defines them.
#pragma once
#include "core/base/compiler.h"

// Arrays of unknown length: code reads more than one byte from them.
extern "C" {
extern const char __ehdr_start[] SEEMALLOC_HIDDEN;  // its ELF header
extern const char _end[] SEEMALLOC_HIDDEN;          // the address after its last byte
}
