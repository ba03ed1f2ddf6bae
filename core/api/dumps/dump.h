// Writes profiles and statistics to files: at exit, on a signal, automatically (auto_dump.h), for
// the API and the socket. A file is complete or does not exist: it is written under a temporary
// name and renamed. Special files (a terminal, a pipe) are written to directly.
//
// The first failure to write a file prints one line on stderr; each is counted, and the program
// continues.
// Threads: any. Requires: no lock held. Not in signal handlers.
#pragma once

#include "core/api/dumps/dump_rules.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/kernel/files.h"
#include "core/os/process/socket.h"

namespace seemalloc {

struct ProfileBytes;
struct ProfileKind;

inline constexpr int kDumpNoMemory = -12;     // -ENOMEM
inline constexpr int kDumpNameTooLong = -36;  // -ENAMETOOLONG

// Writes the heap profile to `pattern` with %p (process id), %n (number of the dump), %t (time) and
// %% replaced. 0 or -errno.
int dump_heap_profile(const char* pattern);
// The same for a profile of any kind; the name, even of a file that could not be written, is
// appended to `path` if that is not null.
int dump_profile(const ProfileKind& kind, const char* pattern, Text* path = nullptr);
// Writes an existing profile; to a name made from a pattern, or to exactly this path.
int write_profile(const ProfileBytes& profile, const char* pattern);
int write_profile_as(const ProfileBytes& profile, const char* path);
// Writes any data in the same way, but does not count it. *file identifies the written file. 0 or
// -errno.
int write_file(const char* path, const char* data, size_t bytes, os::FileIdentity* file = nullptr);

// The writers that dump_by_prefix() uses for the other allocators' names: 0 or -errno. Null except
// in libseemalloc_compat: profile.proto. They are known from the first instruction on, since
// constructors of other libraries run, and may cause dumps, before ours.
__attribute__((weak, visibility("hidden"))) int write_gperftools_text(const char* path,
                                                                      os::FileIdentity* file);
__attribute__((weak, visibility("hidden"))) int write_jemalloc_text(const char* path,
                                                                    os::FileIdentity* file);
// Writes the heap profile to a file named after dump_prefix (dump_names.h). *file identifies the
// written file.
int dump_by_prefix(DumpReason reason, Text& path, os::FileIdentity* file = nullptr);

// Unless `result` is 0, prints a warning on stderr, the first time.
void warn_of_failed_dump(const char* what, const char* path, int result);

struct DumpStatistics {
  uint64_t written, failed;
  uint64_t removed;  // older files, removed (option dump_keep)
  uint64_t joined;   // became due while another request was waiting, and share its file
  int last_error;    // errno of the last failed one; 0: none has failed
};
DumpStatistics dump_statistics();
// Counts a file that was written (0) or not (-errno), and returns the result.
int count_dump(int result);
void count_removed_dumps(unsigned files);
void count_joined_dumps(unsigned dumps);

}  // namespace seemalloc
