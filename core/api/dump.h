// Heap profiles and statistics into files: at exit, on a signal, from the API. Complete or not there at all: written beside, then renamed.
#pragma once

#include "core/base/text.h"

namespace seemalloc {

// Writes the heap profile to `pattern` with %p (process id), %n (count of dumps) and %% replaced. 0 or -errno.
int dump_heap_profile(const char* pattern);
// The same to a file named after dump_prefix, as on a signal; the name, also of one that could not be written, is appended to `path`.
int dump_by_prefix(Text& path);

// What the options ask for. A failure is one line on stderr, once, and the program carries on.
void dump_at_exit();
void dump_on_signal();

}  // namespace seemalloc
