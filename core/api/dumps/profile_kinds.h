// The list of profile kinds: those that `profile KIND` on the socket, files and
// seemalloc_profile_dump_kind() accept.
//
// Threads: any. The kinds also exist in the library without a profiler, but cannot be taken there.
#pragma once

#include "core/api/sampling/sampling.h"
#include "core/base/text.h"

namespace seemalloc {

struct ProfileKind {
  const char* name;
  const char* help;
  // Makes the profile; the caller releases it with release_profile(). False when memory was
  // refused.
  bool (*collect)(ProfileBytes* out);
};

// Null when there is no such kind.
const ProfileKind* find_profile_kind(const char* name);
// "heap, remote, …": for errors.
void list_profile_kinds(Text& out);
void release_profile(const ProfileBytes& profile);

}  // namespace seemalloc
