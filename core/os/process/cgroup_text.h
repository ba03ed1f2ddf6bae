// Parsers of the kernel's text files about control groups (cgroups), line by line:
// /proc/self/cgroup, /proc/self/mountinfo and the files of a group.
//
// Pure functions on characters, without allocation; core/os/process/cgroup.cc reads the files. A
// line is passed without its newline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"

namespace seemalloc::os {

// A part of a text that is stored elsewhere; not NUL-terminated.
struct Slice {
  const char* at = nullptr;
  size_t length = 0;

  bool equals(const char* text) const { return text_equal(at, length, text); }
};

// Removes the part before the next `separator` from the front of *rest, or all of it if there is
// none. Returns false when *rest is empty.
bool take_field(Slice* rest, char separator, Slice* field);
// True when the comma-separated list contains the word.
bool list_has(Slice list, const char* word);
// Reads leading digits; false when there are none. Ignores the rest of the text. A number that is
// too large becomes SIZE_MAX.
bool parse_number(Slice text, uint64_t* number);

// Parses a line of /proc/self/cgroup, "4:cpu,cpuacct:/path". True when it is the controller's; ""
// means version 2, "0::/path".
bool parse_group(Slice line, const char* controller, Slice* path);

// Parses a line of /proc/self/mountinfo. True when it is a mount of the controller's hierarchy ("":
// of version 2). `root` becomes the part of the hierarchy that is mounted, `point` the mount point;
// both with the kernel's escapes (\040) undone.
bool parse_mount(Slice line, const char* controller, Text& root, Text& point);

// The directory of the group `path`: below the mount point, without the mounted root. A path
// outside of that root (in another namespace) is not accessible: the result is then the mount
// point, whose limit is the one of this container.
void group_directory(Slice root, Slice point, Slice path, Text& directory);

// memory.max, memory.high, memory.limit_in_bytes. SIZE_MAX for "max" and for the numbers that mean
// the same in version 1.
bool parse_limit(Slice line, size_t* limit);
// "key 123": true when the line has this key.
bool parse_keyed(Slice line, const char* key, uint64_t* number);
// cpu.max, "200000 100000" or "max 100000": the number of CPUs, rounded up; 0: no limit.
unsigned parse_cpu_max(Slice line);
// The same for cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us.
unsigned cpus_of_quota(Slice quota, Slice period);

}  // namespace seemalloc::os
