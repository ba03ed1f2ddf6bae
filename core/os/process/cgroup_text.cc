#include "core/os/process/cgroup_text.h"

namespace seemalloc::os {

namespace {

// Version 1 rounds "no limit" to pages: 2^63 minus one page of any size.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }

// A space in a path is written as \040.
void append_unescaped(Slice escaped, Text& out) {
  for (size_t i = 0; i < escaped.length; i++) {
    const char* c = escaped.at + i;
    if (*c == '\\' && i + 3 < escaped.length && is_octal(c[1]) && is_octal(c[2]) &&
        is_octal(c[3])) {
      out << static_cast<char>((c[1] - '0') * 64 + (c[2] - '0') * 8 + (c[3] - '0'));
      i += 3;
    } else {
      out << *c;
    }
  }
}

bool begins_with(Slice text, Slice start) {
  if (text.length < start.length) return false;
  for (size_t i = 0; i < start.length; i++) {
    if (text.at[i] != start.at[i]) return false;
  }
  return true;
}

// Whether a component of the path is "..".
bool has_parent_component(Slice path) {
  Slice part;
  while (take_field(&path, '/', &part)) {
    if (part.equals("..")) return true;
  }
  return false;
}

}  // namespace

bool take_field(Slice* rest, char separator, Slice* field) {
  if (rest->length == 0) return false;
  size_t end = 0;
  while (end < rest->length && rest->at[end] != separator) end++;
  *field = Slice{rest->at, end};
  size_t used = end < rest->length ? end + 1 : end;
  *rest = Slice{rest->at + used, rest->length - used};
  return true;
}

bool list_has(Slice list, const char* word) {
  Slice item;
  while (take_field(&list, ',', &item)) {
    if (item.equals(word)) return true;
  }
  return false;
}

bool parse_number(Slice text, uint64_t* number) {
  uint64_t value = 0;
  size_t i = 0;
  for (; i < text.length && is_digit(text.at[i]); i++) {
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text.at[i] - '0'), &value)) {
      value = UINT64_MAX;
      break;
    }
  }
  if (i == 0) return false;
  *number = value;
  return true;
}

bool parse_group(Slice line, const char* controller, Slice* path) {
  Slice hierarchy, controllers;
  if (!take_field(&line, ':', &hierarchy) || !take_field(&line, ':', &controllers)) return false;
  bool wanted = *controller == 0 ? hierarchy.equals("0") && controllers.length == 0
                                 : list_has(controllers, controller);
  if (!wanted || line.length == 0 || line.at[0] != '/') return false;
  *path = line;
  return true;
}

// "36 35 0:33 /root /point rw,relatime shared:1 - cgroup cgroup rw,memory": any number of optional
// fields like shared:1.
bool parse_mount(Slice line, const char* controller, Text& root, Text& point) {
  Slice field, mounted, where;
  for (int i = 0; i < 3; i++) {
    if (!take_field(&line, ' ', &field)) return false;
  }
  if (!take_field(&line, ' ', &mounted) || !take_field(&line, ' ', &where)) return false;
  do {
    if (!take_field(&line, ' ', &field)) return false;
  } while (!field.equals("-"));
  Slice type, source;
  if (!take_field(&line, ' ', &type) || !take_field(&line, ' ', &source)) return false;
  bool wanted = *controller == 0 ? type.equals("cgroup2")
                                 : type.equals("cgroup") && list_has(line, controller);
  if (!wanted) return false;
  append_unescaped(mounted, root);
  append_unescaped(where, point);
  return !root.truncated() && !point.truncated();
}

void group_directory(Slice root, Slice point, Slice path, Text& directory) {
  directory.append(point.at, point.length);
  if (has_parent_component(root) || has_parent_component(path)) return;
  if (root.equals("/")) root.length = 0;
  if (!begins_with(path, root)) return;
  Slice below{path.at + root.length, path.length - root.length};
  // The mounted group itself, or /ab where /a is mounted.
  if (below.length <= 1 || below.at[0] != '/') return;
  directory.append(below.at, below.length);
}

bool parse_limit(Slice line, size_t* limit) {
  uint64_t number = 0;
  if (line.equals("max")) {
    *limit = SIZE_MAX;
    return true;
  }
  if (!parse_number(line, &number)) return false;
  *limit = number >= kNoLimit ? SIZE_MAX : static_cast<size_t>(number);
  return true;
}

bool parse_keyed(Slice line, const char* key, uint64_t* number) {
  Slice word;
  return take_field(&line, ' ', &word) && word.equals(key) && parse_number(line, number);
}

unsigned parse_cpu_max(Slice line) {
  Slice quota;
  if (!take_field(&line, ' ', &quota)) return 0;
  return cpus_of_quota(quota, line);
}

unsigned cpus_of_quota(Slice quota, Slice period) {
  uint64_t time = 0, each = 0;
  // Fails for max and -1.
  if (!parse_number(quota, &time) || !parse_number(period, &each) || each == 0) return 0;
  uint64_t cpus = time / each + (time % each != 0 ? 1 : 0);
  return cpus == 0 ? 1 : cpus > 65536 ? 65536 : static_cast<unsigned>(cpus);
}

}  // namespace seemalloc::os
