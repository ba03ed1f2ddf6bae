// What the kernel's texts about control groups (cgroups) say, line by line: /proc/self/cgroup, /proc/self/mountinfo and the files
// of a group.
//
// Pure functions on characters, without allocation; core/os/cgroup.cc reads the files. A line comes without its newline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"

namespace seemalloc::os {

// A part of a text that lives elsewhere; not terminated.
struct Slice {
  const char* at = nullptr;
  size_t length = 0;

  bool equals(const char* text) const { return text_equal(at, length, text); }
};

// Takes what is before the next `separator` off the front of *rest; all of it where there is none. False when *rest is empty.
bool take_field(Slice* rest, char separator, Slice* field);
// True when the comma-separated list has the word.
bool list_has(Slice list, const char* word);
// Digits from the front on; false when there is none. What is behind them is ignored; too large a number is SIZE_MAX.
bool parse_number(Slice text, uint64_t* number);

// A line of /proc/self/cgroup, "4:cpu,cpuacct:/path": true when it is for the controller; "" is version 2, "0::/path".
bool parse_group(Slice line, const char* controller, Slice* path);

// A line of /proc/self/mountinfo: true when it is a mount of the controller's hierarchy ("": of version 2). The root is what
// part of the hierarchy is mounted, the point where; both with the kernel's escapes (\040) undone.
bool parse_mount(Slice line, const char* controller, Text& root, Text& point);

// Where the files of the group `path` are: below the mount point, less the root that is mounted there. A path that is outside of
// that root (another namespace's) cannot be had: then the mount point, which is what limits this container.
void group_directory(Slice root, Slice point, Slice path, Text& directory);

// memory.max, memory.high, memory.limit_in_bytes: SIZE_MAX for "max" and for version 1's numbers that mean the same.
bool parse_limit(Slice line, size_t* limit);
// "key 123": true when the line is of that key.
bool parse_keyed(Slice line, const char* key, uint64_t* number);
// cpu.max, "200000 100000" or "max 100000": CPUs, rounded up; 0: no limit.
unsigned parse_cpu_max(Slice line);
// cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us: likewise.
unsigned cpus_of_quota(Slice quota, Slice period);

}  // namespace seemalloc::os
