// The names of dumps: patterns with %p %n %t, and names made from the option dump_prefix in the
// form of the option dump_names.
//
// Threads: any; each number is used once.
#pragma once

#include "core/api/dumps/dump_rules.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

// The maximum length of a dump's name, with its NUL.
inline constexpr size_t kDumpPathBytes = 512;

// Replaces %p (process id), %n (sequence number), %t (seconds since 1970) and %%. False when the
// name is too long.
bool dump_name_from(const char* pattern, Text& path);
// The next name for a dump of this reason:
//   seemalloc   PREFIX.PID.N.heap.pb, PREFIX a pattern
//   gperftools  PREFIX.0001.heap, in a forked child PREFIX_PID.0001.heap
//   jemalloc    PREFIX.PID.SEQ.vVSEQ.heap: v is i (bytes allocated), u (growth), m (on
//               request or signal), f (at exit, without VSEQ), and two that jemalloc does not
//               have: t (time) and o (an allocation failed)
bool next_dump_name(DumpReason reason, Text& path);
// The same in this form, regardless of the option dump_names.
bool next_dump_name(DumpReason reason, options::DumpNames form, Text& path);

// Records the process whose gperftools names have no process id. Called at load.
void init_dump_names();

}  // namespace seemalloc
