// Variables of other allocators, for people who come from them: gperftools' HEAPPROFILE, HEAP_PROFILE_…, TCMALLOC_…, jemalloc's
// MALLOC_CONF. Each is translated to options of ours before SEEMALLOC_CONF is read, which therefore wins. docs/migrating.md says what
// becomes of each.
//
// Threads: at start, before there are any. Makes no memory; not called in privileged programs.
#pragma once

namespace seemalloc {

// What cannot be understood is reported, one line each, and skipped. MALLOC_CONF with abort_conf ends the process then.
void read_foreign_options(char** environment, void (*report)(const char* line));
// With the option verbose: one line that names the settings which were understood and change nothing here.
void report_options_without_effect(void (*report)(const char* line));

// Programs that this one starts inherit HEAPPROFILE and are to put their process id behind it: has them know it by
// HEAPPROFILE_USE_PID=1, as gperftools does. Once the C library has its environment.
void mark_children_of_foreign_options();

}  // namespace seemalloc
