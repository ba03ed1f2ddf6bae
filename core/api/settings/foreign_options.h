// Variables of other allocators, for users who migrate: gperftools' HEAPPROFILE, HEAP_PROFILE_…,
// TCMALLOC_…, jemalloc's MALLOC_CONF. Each is translated to options of seemalloc before
// SEEMALLOC_CONF is read, which therefore takes precedence. docs/migrating.md describes the effect
// of each.
//
// Threads: at start, before other threads exist. Allocates nothing; not called in privileged
// programs.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// Reports invalid settings, one line each, and skips them. MALLOC_CONF with abort_conf ends the
// process in that case.
void read_foreign_options(char** environment, void (*report)(const char* line));
// With the option verbose: prints one line that names the settings that were understood but have no
// effect here.
void report_ignored_settings(void (*report)(const char* line));

// Settings of MALLOC_CONF that no option stores, for callers that query them by jemalloc's names.
struct JemallocSettings {
  bool abort_conf, confirm_conf, prof_off, prof_leak, prof_leak_error;
  int64_t muzzy_decay_ms;
};
const JemallocSettings& jemalloc_settings();

// The dump intervals of gperftools' HEAPPROFILE and HeapProfilerStart: after this many allocated
// bytes, this many bytes in use above the previous maximum, or this many seconds; 0: never. Set by
// HEAP_PROFILE_ALLOCATION_INTERVAL and related variables.
struct HeapProfileIntervals {
  uint64_t allocated, in_use, seconds;
};
HeapProfileIntervals heap_profile_intervals(char** environment, void (*report)(const char* line));
// HEAPPROFILE was set when the program started.
bool heap_is_profiled_by_variable();

// A path in a variable of gperftools (HEAPPROFILE, CPUPROFILE). Child programs of a profiled
// program inherit it and append their process id: they recognise that they are children by
// NAME_USE_PID=1 (gperftools 2.17) or by the highest bit of the first byte (2.10). Both are
// understood; seemalloc marks its children by the first.
class GperftoolsPath {
 public:
  // False when the variable is not set, or empty.
  bool read(char** environment, const char* name);
  bool is_child() const { return is_child_; }
  // Appends the path without the process id.
  void append_to(Text& out) const;

 private:
  const char* value_ = nullptr;
  bool is_child_ = false;
};

// The value of a variable; null if it is not set.
const char* environment_value(char** environment, const char* name);

// Registers a name (HEAPPROFILE or CPUPROFILE) for mark_child_environment().
void register_child_mark(const char* name);
// Sets NAME_USE_PID=1 for the registered names. Requires: the C library has initialised its
// environment.
void mark_child_environment();

}  // namespace seemalloc
