// Profiles and statistics into files: at exit, on a signal, by themselves (auto_dump.h), from the API and the socket. Complete or
// not there at all: written beside, then renamed. What is no file (a terminal, a pipe) is written to as it is.
//
// A file that cannot be written is one line on stderr, once for all, and counted; the program carries on.
// Threads: any. Requires: no lock held. Not in signal handlers.
#pragma once

#include "core/api/dump_rules.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/socket.h"

namespace seemalloc {

struct ProfileBytes;
struct ProfileKind;

inline constexpr int kDumpNoMemory = -12;  // -ENOMEM

// Writes the heap profile to `pattern` with %p (process id), %n (count of dumps), %t (time) and %% replaced. 0 or -errno.
int dump_heap_profile(const char* pattern);
// The same of a profile of any kind; the name, also of one that could not be written, is appended to `path`, if there is one.
int dump_profile(const ProfileKind& kind, const char* pattern, Text* path = nullptr);
// A profile that is there already; with a pattern for its name, or to this very path.
int write_profile(const ProfileBytes& profile, const char* pattern);
int write_profile_as(const ProfileBytes& profile, const char* path);
// Anything else, as all of these are written, but not counted. *file is what was written. 0 or -errno.
int write_file(const char* path, const char* data, size_t bytes, os::FileIdentity* file = nullptr);

// What dump_by_prefix() writes under names of the others' forms: 0 or -errno. Null but in libseemalloc_compat: profile.proto. Known
// from the first instruction on, since constructors of other libraries run, and bring dumps about, before ours.
__attribute__((weak, visibility("hidden"))) int write_gperftools_text(const char* path, os::FileIdentity* file);
__attribute__((weak, visibility("hidden"))) int write_jemallocs_text(const char* path, os::FileIdentity* file);
// jemalloc's statistics, for its option stats_print. Null but in libseemalloc_compat: those of malloc_stats().
__attribute__((weak, visibility("hidden"))) void print_jemallocs_statistics();
// The heap profile to a file named after dump_prefix (dump_names.h). *file is what was written.
int dump_by_prefix(DumpReason reason, Text& path, os::FileIdentity* file = nullptr);

// Unless it is 0, says so on stderr, the first time.
void warn_of_failed_dump(const char* what, const char* path, int result);

// What the options ask for.
void dump_at_exit();
// The options ask for something to be written then. Takes no lock.
bool dumps_at_exit();

struct DumpStatistics {
  uint64_t written, failed;
  uint64_t removed;  // older ones (option dump_keep)
  uint64_t joined;   // became due while another waited to be written, and are that one
  int last_error;    // of those that failed, an errno; 0: none has
};
DumpStatistics dump_statistics();
void count_removed_dumps(unsigned files);
void count_joined_dumps(unsigned dumps);

}  // namespace seemalloc
