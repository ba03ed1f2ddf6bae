// The control groups (cgroups, versions 1 and 2) this process is in: how much memory and CPU time they let it have, and how
// much memory they use.
//
// A MemoryGroup opens files by path for each reading and closes them at once: nobody else's descriptor is ever read. For the moment
// each takes a low number, which another thread of the program may have been about to get: the helper, which reads all the
// time, keeps what it needs open elsewhere (UsageFiles) and looks at each descriptor before it is used. No allocation; about
// 4 KiB of stack. A cgroup that cannot be seen is as good as none. Threads: any; an object has one user at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/descriptor.h"

namespace seemalloc::os {

// Usage and limit of the level of the hierarchy that is nearest to its limit.
struct GroupUsage {
  size_t limit = SIZE_MAX;  // memory.max or memory.high, whichever is less
  size_t bytes = 0;         // near the limit without the pages of files, which the kernel drops first
  uint64_t hits = 0;        // how often the limit was met so far; read once three quarters of it are used
  unsigned level = 0;       // which level it is
};

class MemoryGroup {
 public:
  static constexpr size_t kMaxPath = 400;
  // The least limits are kept: those above are wider, or of no account.
  static constexpr unsigned kMaxLevels = 4;

  // Looks for the levels, from this process's group up, that have a limit. False when there is none.
  bool find(const char* proc_self = "/proc/self");
  // The least limit found; SIZE_MAX when there is none.
  size_t limit() const { return limit_; }
  // False when nothing can be read (any more).
  bool read(GroupUsage* usage) const;
  // A file of the group itself, such as memory.pressure; null where it is not of version 2 or the path is too long. In `path`,
  // of kMaxPath bytes.
  const char* file_path(const char* name, char* path) const;

  // The levels that have a limit, the least one first.
  unsigned levels() const { return count_; }
  size_t level_limit(unsigned level) const { return levels_[level].limit; }
  unsigned version() const { return version_; }
  // A file of a level, to stay open (os::open_apart).
  enum class File { kUsage, kStat };
  int open_apart(unsigned level, File file) const;
  // Of the group itself, as found: memory.max or memory.high, whichever is less. SIZE_MAX: none.
  size_t own_limit() const { return own_limit_; }
  // The files that say so, to stay open; -1 when there is none (any more).
  static constexpr unsigned kLimitFiles = 2;
  int open_limit_apart(unsigned which) const;
  bool same_files(const MemoryGroup& other) const;

 private:
  struct Level {
    size_t path_length;
    size_t limit;
  };

  void consider(size_t path_length, size_t limit);
  size_t limit_of(size_t path_length) const;
  bool read_level(size_t path_length, GroupUsage* usage) const;

  unsigned version_ = 0;
  unsigned count_ = 0;
  size_t limit_ = SIZE_MAX;
  size_t own_limit_ = SIZE_MAX;
  size_t directory_length_ = 0;
  Level levels_[kMaxLevels] = {};
  char directory_[kMaxPath] = {};
};

// The files with the usage of a group's levels, kept open, those that say how much of it is files', and those with its own limits.
class UsageFiles {
 public:
  // Opens those that are not open, or not ours any more.
  void keep_open(const MemoryGroup& group);
  // Of the level with the least room. False when a level has used three quarters of its limit, so that MemoryGroup::read has to
  // say more, or when one cannot be read.
  bool read(const MemoryGroup& group, GroupUsage* usage) const;
  // The group's own limit is no longer what it was when it was found: it was set while the process ran. Those of levels above, and a
  // move to another group, are found by those who look anew.
  bool limit_has_changed(const MemoryGroup& group);
  void close();

 private:
  Descriptor limit_[MemoryGroup::kLimitFiles];
  Descriptor usage_[MemoryGroup::kMaxLevels];
  Descriptor stat_[MemoryGroup::kMaxLevels];
};

// CPUs' worth of time that the cgroups grant this process, rounded up; 0: no limit.
unsigned cpu_quota(const char* proc_self = "/proc/self");

}  // namespace seemalloc::os
