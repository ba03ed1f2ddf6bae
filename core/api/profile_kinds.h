// The one list of the kinds of profiles: what `profile KIND` on the socket, files and seemalloc_profile_dump_kind() can be asked for.
//
// Threads: any. A kind is there in the library without a profiler too, and then cannot be taken.
#pragma once

#include "core/api/sampling.h"
#include "core/base/text.h"

namespace seemalloc {

struct ProfileKind {
  const char* name;
  const char* help;
  // Makes the profile; the caller gives it back. False when memory was refused.
  bool (*take)(ProfileBytes* out);
};

// Null when there is no such kind.
const ProfileKind* find_profile_kind(const char* name);
// "heap, remote, …": for errors.
void list_profile_kinds(Text& out);
void give_back(const ProfileBytes& profile);

}  // namespace seemalloc
