// Variables of other allocators, for people who come from them: gperftools' HEAPPROFILE, HEAP_PROFILE_…, TCMALLOC_…, jemalloc's
// MALLOC_CONF. Each is translated to options of ours before SEEMALLOC_CONF is read, which therefore wins. docs/migrating.md says what
// becomes of each.
//
// Threads: at start, before there are any. Makes no memory; not called in privileged programs.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// What cannot be understood is reported, one line each, and skipped. MALLOC_CONF with abort_conf ends the process then.
void read_foreign_options(char** environment, void (*report)(const char* line));
// With the option verbose: one line that names the settings which were understood and change nothing here.
void report_options_without_effect(void (*report)(const char* line));

// What MALLOC_CONF said that no option of ours keeps, for those who ask for it by jemalloc's names.
struct JemallocSaid {
  bool abort_conf, confirm_conf, prof_off, prof_leak, prof_leak_error;
  int64_t muzzy_decay_ms;
};
const JemallocSaid& jemalloc_said();

// What gperftools' HEAPPROFILE begins, and its HeapProfilerStart: dumps each time so many bytes have been allocated, so many more are
// in use than ever, so many seconds have passed; 0 never. As HEAP_PROFILE_ALLOCATION_INTERVAL and its kin say.
struct HeapProfileIntervals {
  uint64_t allocated, in_use, seconds;
};
HeapProfileIntervals heap_profile_intervals(char** environment, void (*report)(const char* line));
// HEAPPROFILE was set when the program started.
bool heap_is_profiled_by_variable();

// A path that a variable of gperftools names (HEAPPROFILE, CPUPROFILE). Programs that a profiled one starts inherit it and put their
// process id behind it: they know what they are by NAME_USE_PID=1 (gperftools 2.17) or by the highest bit of the first byte (2.10).
// Either is understood; ours tell their children by the first.
class GperftoolsPath {
 public:
  // False when the variable is not set, or empty.
  bool read(char** environment, const char* name);
  bool is_child() const { return is_child_; }
  // Without the process id.
  void append_to(Text& out) const;

 private:
  const char* value_ = nullptr;
  bool is_child_ = false;
};

// The value of a variable; null: it is not set.
const char* value_in(char** environment, const char* name);

// For one of these names, before mark_children().
void note_children_of(const char* name);
// Sets NAME_USE_PID=1 for them. Once the C library has its environment.
void mark_children();

}  // namespace seemalloc
