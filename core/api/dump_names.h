// The names of dumps: patterns with %p %n %t, and names made of the option dump_prefix in the form that dump_names says.
//
// Threads: any; numbers are given once.
#pragma once

#include "core/api/dump_rules.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

// The longest name of a dump, its NUL included.
inline constexpr size_t kDumpPathBytes = 512;

// Replaces %p (process id), %n (a count of names), %t (seconds since 1970) and %%. False when there is no room for it.
bool dump_name_from(const char* pattern, Text& path);
// The next name for a dump of this reason:
//   seemalloc   PREFIX.PID.N.heap.pb, PREFIX a pattern
//   gperftools  PREFIX.0001.heap, in a forked child PREFIX_PID.0001.heap
//   jemalloc    PREFIX.PID.SEQ.vVSEQ.heap: v is i (bytes allocated), u (growth), m (asked for, signal), f (at exit, without
//               VSEQ), and, which jemalloc has not, t (time) and o (an allocation failed)
bool next_dump_name(DumpReason reason, Text& path);
// The same in this form, whatever the option dump_names says.
bool next_dump_name(DumpReason reason, options::DumpNames form, Text& path);

// Whose names those of gperftools are without a process id. At load.
void dump_names_begin();

}  // namespace seemalloc
