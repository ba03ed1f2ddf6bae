// The control groups (cgroups, versions 1 and 2) of this process: the memory and CPU time that they
// allow, and the memory that they use.
//
// A MemoryGroup opens files by path for each reading and closes them immediately, so it never reads
// another thread's descriptor. For a moment each takes a low descriptor number, which another
// thread of the program may expect to get. The helper thread, which reads often, therefore keeps
// its files open at high numbers (UsageFiles) and checks each descriptor before use. No allocation;
// about 4 KiB of stack. A cgroup that is not visible counts as none. Threads: any; an object has
// one user at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/process/descriptor.h"

namespace seemalloc::os {

// Usage and limit of the level of the hierarchy that is nearest to its limit.
struct GroupUsage {
  size_t limit = SIZE_MAX;  // memory.max or memory.high, whichever is smaller
  size_t bytes = 0;         // near the limit, without file pages, which the kernel drops first
  // How often the limit was reached so far; read once three quarters of it are used.
  uint64_t limit_events = 0;
  unsigned level = 0;  // index of the level
};

class MemoryGroup {
 public:
  static constexpr size_t kMaxPath = 400;
  // The smallest limits are kept: further ones are wider or irrelevant.
  static constexpr unsigned kMaxLevels = 4;

  // Finds the levels that have a limit, from this process's group upwards. Returns false when there
  // is none.
  bool find(const char* proc_self = "/proc/self");
  // The smallest limit found; SIZE_MAX when there is none.
  size_t limit() const { return limit_; }
  // Returns false when nothing can be read (any more).
  bool read(GroupUsage* usage) const;
  // Writes the path of a file of the group itself, such as memory.pressure, into `path` (kMaxPath
  // bytes). Returns null for version 1, or when the path is too long.
  const char* file_path(const char* name, char* path) const;

  // The levels that have a limit, smallest limit first.
  unsigned levels() const { return count_; }
  size_t level_limit(unsigned level) const { return levels_[level].limit; }
  unsigned version() const { return version_; }
  // Opens a file of a level, to be kept open (os::open_level_file).
  enum class File { kUsage, kStat };
  int open_level_file(unsigned level, File file) const;
  // The limit of the group itself when it was found: memory.max or memory.high, whichever is
  // smaller. SIZE_MAX: none.
  size_t own_limit() const { return own_limit_; }
  // Opens the files that hold this limit, to be kept open; -1 when there is none (any more).
  static constexpr unsigned kLimitFiles = 2;
  int open_limit_file(unsigned which) const;
  bool same_files(const MemoryGroup& other) const;

 private:
  struct Level {
    size_t path_length;
    size_t limit;
  };

  void add_level(size_t path_length, size_t limit);
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

// UsageFiles: keeps open the usage files of a group's levels, the files of the group's own limits,
// and memory.stat of levels that are near their limit.
class UsageFiles {
 public:
  // Opens the usage files that are not open, or whose descriptors are no longer ours.
  void keep_open(const MemoryGroup& group);
  // Reads the level with the least room. Returns false when a level has used three quarters of its
  // limit, so that MemoryGroup::read is needed, or when one cannot be read.
  bool read(const MemoryGroup& group, GroupUsage* usage);
  // Whether the group's own limit has changed since it was found: it was set while the process ran.
  // Changed limits of higher levels, and a move to another group, are detected only by a new
  // find().
  bool limit_has_changed(const MemoryGroup& group);
  void close();

 private:
  static void keep_open(CheckedDescriptor& kept, const MemoryGroup& group, unsigned level,
                        MemoryGroup::File file);

  CheckedDescriptor limit_[MemoryGroup::kLimitFiles];
  CheckedDescriptor usage_[MemoryGroup::kMaxLevels];
  CheckedDescriptor stat_[MemoryGroup::kMaxLevels];
};

// CPU time that the cgroups grant this process, in CPUs, rounded up; 0: no limit.
unsigned cpu_quota(const char* proc_self = "/proc/self");

}  // namespace seemalloc::os
