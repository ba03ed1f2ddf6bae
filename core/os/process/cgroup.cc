#include "core/os/process/cgroup.h"

#include <fcntl.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/cgroup_text.h"
#include "core/os/process/lines.h"
#include "core/os/process/socket.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::os {

namespace {

using Path = FixedText<MemoryGroup::kMaxPath>;

// Location of a controller's group: its directory, and the length of the mount point in it.
struct ControllerLocation {
  unsigned version = 0;  // 0: not found
  Path directory;
  size_t top = 0;
};

bool find_mount(const char* proc_self, const char* controller, Text& root, Text& point) {
  Path file;
  file << proc_self << "/mountinfo";
  Lines lines(file.c_str());
  for (Slice line; lines.next(&line);) {
    root.clear();
    point.clear();
    if (parse_mount(line, controller, root, point)) return true;
  }
  return false;
}

bool find_path(const char* proc_self, const char* controller, Text& path) {
  Path file;
  file << proc_self << "/cgroup";
  Lines lines(file.c_str());
  for (Slice line, found; lines.next(&line);) {
    if (!parse_group(line, controller, &found)) continue;
    path.append(found.at, found.length);
    return !path.truncated();
  }
  return false;
}

Slice slice(const Text& text) { return Slice{text.c_str(), text.size()}; }

struct Found {
  Path path, root, point;
};

// Both versions may be mounted; a controller belongs to one of them.
bool find_controller(const char* proc_self, const char* controller, ControllerLocation* place) {
  Scratch<Found> found;
  if (!found) return false;
  Path &path = found->path, &root = found->root, &point = found->point;
  unsigned version = 1;
  if (!find_path(proc_self, controller, path)) {
    version = 2;
    controller = "";
    path.clear();
    if (!find_path(proc_self, controller, path)) return false;
  }
  if (!find_mount(proc_self, controller, root, point)) return false;
  group_directory(slice(root), slice(point), slice(path), place->directory);
  if (place->directory.truncated()) return false;
  place->version = version;
  place->top = point.size();
  return true;
}

// Returns the length of the parent's path; 0 when the parent is above the mount point.
size_t parent(const char* directory, size_t length, size_t top) {
  if (length <= top) return 0;
  while (length > top && directory[length - 1] != '/') length--;
  return length > top ? length - 1 : length;
}

// Copies the first line of a file of the group into `buffer`; empty when there is none.
Slice first_line(const char* directory, size_t length, const char* name, char* buffer,
                 size_t capacity) {
  Path file;
  file.append(directory, length) << "/" << name;
  if (file.truncated()) return {};
  Lines lines(file.c_str());
  Slice line;
  if (!lines.next(&line) || line.length >= capacity) return {};
  for (size_t i = 0; i < line.length; i++) buffer[i] = line.at[i];
  return Slice{buffer, line.length};
}

// Versions 1 and 2.
constexpr const char* kUsageNames[] = {"memory.usage_in_bytes", "memory.current"};

using LimitNames = const char * [MemoryGroup::kLimitFiles];
const LimitNames& limit_names(unsigned version) {
  static constexpr LimitNames kNames[] = {{"memory.limit_in_bytes", nullptr},
                                          {"memory.max", "memory.high"}};
  return kNames[version - 1];
}

bool is_near(size_t bytes, size_t limit) { return bytes > limit / 4 * 3; }
size_t remaining_bytes(const GroupUsage& usage) {
  return saturating_subtract(usage.limit, usage.bytes);
}

size_t read_limit(const char* directory, size_t length, const char* name) {
  char buffer[64];
  size_t limit = SIZE_MAX;
  parse_limit(first_line(directory, length, name, buffer, sizeof(buffer)), &limit);
  return limit;
}

bool read_number(const char* directory, size_t length, const char* name, uint64_t* number) {
  char buffer[64];
  return parse_number(first_line(directory, length, name, buffer, sizeof(buffer)), number);
}

// The sum of the values of two keys.
uint64_t sum_keyed(Lines&& lines, const char* key, const char* other_key) {
  uint64_t sum = 0, value = 0;
  for (Slice line; lines.next(&line);) {
    if (parse_keyed(line, key, &value) || parse_keyed(line, other_key, &value)) sum += value;
  }
  return sum;
}

// Bytes of file pages according to a memory.stat. Excludes tmpfs, whose pages the kernel cannot
// drop.
uint64_t file_bytes(Lines&& stat, unsigned version) {
  if (version == 1)
    return sum_keyed(static_cast<Lines&&>(stat), "total_inactive_file", "total_active_file");
  return sum_keyed(static_cast<Lines&&>(stat), "inactive_file", "active_file");
}

// Appends the path of a level's file; truncated when it is too long.
void make_path(const char* directory, size_t length, const char* name, Text& path) {
  path.append(directory, length) << "/" << name;
}

unsigned quota_of(unsigned version, const char* directory, size_t length) {
  char quota[64], period[64];
  if (version == 2)
    return parse_cpu_max(first_line(directory, length, "cpu.max", quota, sizeof(quota)));
  return cpus_of_quota(first_line(directory, length, "cpu.cfs_quota_us", quota, sizeof(quota)),
                       first_line(directory, length, "cpu.cfs_period_us", period, sizeof(period)));
}

}  // namespace

size_t MemoryGroup::limit_of(size_t path_length) const {
  size_t least = SIZE_MAX;
  for (const char* name : limit_names(version_)) {
    size_t limit = name != nullptr ? read_limit(directory_, path_length, name) : SIZE_MAX;
    if (limit < least) least = limit;
  }
  return least;
}

// Keeps the smallest limits. Of equal ones it keeps the lower level's, which is reached first.
void MemoryGroup::add_level(size_t path_length, size_t limit) {
  if (limit == SIZE_MAX) return;
  unsigned i = count_ < kMaxLevels ? count_++ : kMaxLevels;
  while (i != 0 && levels_[i - 1].limit > limit) {
    if (i < kMaxLevels) levels_[i] = levels_[i - 1];
    i--;
  }
  if (i < kMaxLevels) levels_[i] = Level{path_length, limit};
}

bool MemoryGroup::find(const char* proc_self) {
  count_ = 0;
  limit_ = own_limit_ = SIZE_MAX;
  version_ = 0;
  ControllerLocation place;
  if (!find_controller(proc_self, "memory", &place)) return false;
  version_ = place.version;
  directory_length_ = place.directory.size();
  for (size_t i = 0; i <= directory_length_; i++) directory_[i] = place.directory.c_str()[i];
  for (size_t length = directory_length_; length != 0;
       length = parent(directory_, length, place.top)) {
    size_t limit = limit_of(length);
    if (length == directory_length_) own_limit_ = limit;
    add_level(length, limit);
  }
  if (count_ != 0) limit_ = levels_[0].limit;
  return count_ != 0;
}

bool MemoryGroup::read_level(size_t path_length, GroupUsage* usage) const {
  uint64_t bytes = 0;
  usage->limit = limit_of(path_length);
  if (!read_number(directory_, path_length, kUsageNames[version_ - 1], &bytes)) return false;
  if (is_near(bytes, usage->limit)) {
    Path path;
    make_path(directory_, path_length, "memory.stat", path);
    // Costs more: read only near the limit.
    uint64_t files = file_bytes(Lines(path.c_str()), version_);
    bytes -= files < bytes ? files : bytes;
    if (version_ == 1) {
      read_number(directory_, path_length, "memory.failcnt", &usage->limit_events);
    } else {
      path.clear();
      make_path(directory_, path_length, "memory.events", path);
      usage->limit_events = sum_keyed(Lines(path.c_str()), "high", "max");
    }
  }
  usage->bytes = static_cast<size_t>(bytes);
  return true;
}

bool MemoryGroup::read(GroupUsage* usage) const {
  bool any = false;
  for (unsigned i = 0; i < count_; i++) {
    GroupUsage level;
    level.level = i;
    if (!read_level(levels_[i].path_length, &level) || level.limit == SIZE_MAX) continue;
    if (!any || remaining_bytes(level) < remaining_bytes(*usage)) *usage = level;
    any = true;
  }
  return any;
}

const char* MemoryGroup::file_path(const char* name, char* path) const {
  if (version_ != 2) return nullptr;
  Text text(path, kMaxPath);
  text.append(directory_, directory_length_) << "/" << name;
  return text.truncated() ? nullptr : path;
}

int MemoryGroup::open_level_file(unsigned level, File file) const {
  Path path;
  make_path(directory_, levels_[level].path_length,
            file == File::kUsage ? kUsageNames[version_ - 1] : "memory.stat", path);
  return path.truncated() ? -1 : os::open_high(path.c_str(), O_RDONLY);
}

int MemoryGroup::open_limit_file(unsigned which) const {
  const char* name = version_ != 0 ? limit_names(version_)[which] : nullptr;
  if (name == nullptr) return -1;
  Path path;
  make_path(directory_, directory_length_, name, path);
  return path.truncated() ? -1 : os::open_high(path.c_str(), O_RDONLY);
}

bool MemoryGroup::same_files(const MemoryGroup& other) const {
  if (version_ != other.version_ || count_ != other.count_ ||
      !text_equal(directory_, other.directory_))
    return false;
  for (unsigned i = 0; i < count_; i++) {
    if (levels_[i].path_length != other.levels_[i].path_length) return false;
  }
  return true;
}

void UsageFiles::keep_open(const MemoryGroup& group) {
  for (unsigned i = 0; i < group.levels(); i++)
    keep_open(usage_[i], group, i, MemoryGroup::File::kUsage);
}

void UsageFiles::keep_open(CheckedDescriptor& kept, const MemoryGroup& group, unsigned level,
                           MemoryGroup::File file) {
  if (kept.is_ours()) return;
  kept.fd = -1;
  int fd = group.open_level_file(level, file);
  if (fd >= 0) kept.set(fd);
}

bool UsageFiles::read(const MemoryGroup& group, GroupUsage* usage) {
  for (unsigned i = 0; i < group.levels(); i++) {
    Slice line;
    Lines lines(usage_[i]);
    uint64_t bytes = 0;
    if (!lines.next(&line) || !parse_number(line, &bytes)) return false;
    GroupUsage level{group.level_limit(i), static_cast<size_t>(bytes), 0, i};
    if (!is_near(level.bytes, level.limit)) {
      stat_[i].close();
    } else {
      keep_open(stat_[i], group, i, MemoryGroup::File::kStat);
      uint64_t files = file_bytes(Lines(stat_[i]), group.version());
      level.bytes -= files < bytes ? files : bytes;
      if (is_near(level.bytes, level.limit)) return false;
    }
    if (i == 0 || remaining_bytes(level) < remaining_bytes(*usage)) *usage = level;
  }
  return group.levels() != 0;
}

bool UsageFiles::limit_has_changed(const MemoryGroup& group) {
  size_t least = SIZE_MAX;
  bool any = false;
  for (unsigned i = 0; i < MemoryGroup::kLimitFiles; i++) {
    CheckedDescriptor& kept = limit_[i];
    if (!kept.is_ours()) {
      kept.fd = -1;
      int fd = group.open_limit_file(i);
      if (fd < 0) continue;
      kept.set(fd);
    }
    Slice line;
    Lines lines(kept);
    size_t limit = SIZE_MAX;
    if (!lines.next(&line) || !parse_limit(line, &limit)) continue;
    any = true;
    if (limit < least) least = limit;
  }
  return any && least != group.own_limit();
}

void UsageFiles::close() {
  for (CheckedDescriptor& kept : limit_) kept.close();
  for (unsigned i = 0; i < MemoryGroup::kMaxLevels; i++) {
    usage_[i].close();
    stat_[i].close();
  }
}

unsigned cpu_quota(const char* proc_self) {
  ControllerLocation place;
  if (!find_controller(proc_self, "cpu", &place)) return 0;
  unsigned least = 0;
  for (size_t length = place.directory.size(); length != 0;
       length = parent(place.directory.c_str(), length, place.top)) {
    unsigned cpus = quota_of(place.version, place.directory.c_str(), length);
    if (cpus != 0 && (least == 0 || cpus < least)) least = cpus;
  }
  return least;
}

}  // namespace seemalloc::os
