#include "core/api/dump.h"

#include <fcntl.h>

#include <atomic>

#include "core/api/mapped_text.h"
#include "core/api/report.h"
#include "core/api/sampling.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/os.h"

namespace seemalloc {

namespace {

constexpr int kNotSupported = -95;  // -EOPNOTSUPP
constexpr int kNoMemory = -12;      // -ENOMEM
constexpr int kNameTooLong = -36;   // -ENAMETOOLONG

std::atomic<unsigned> dumps{0};
std::atomic<bool> warned{false};

void expand(const char* pattern, unsigned number, Text& out) {
  for (const char* at = pattern; *at != 0; at++) {
    if (*at != '%' || at[1] == 0) {
      out << *at;
      continue;
    }
    at++;
    if (*at == 'p') {
      out << static_cast<uint64_t>(os::process_id());
    } else if (*at == 'n') {
      out << number;
    } else if (*at == '%') {
      out << '%';
    } else {
      out << '%' << *at;
    }
  }
}

int write_file(const char* path, unsigned number, const char* data, size_t bytes) {
  FixedText<640> beside;
  beside << path << ".tmp." << static_cast<uint64_t>(os::process_id()) << "." << number;
  int fd = os::open_file(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) return fd;
  int result = os::write_all(fd, data, bytes);
  os::close_file(fd);
  if (result == 0) result = os::rename_file(beside.c_str(), path);
  if (result != 0) os::remove_file(beside.c_str());
  return result;
}

void warn_of(const char* what, const char* pattern, int result) {
  if (result == 0 || warned.exchange(true, std::memory_order_relaxed)) return;
  FixedText<640> line;
  line << what << " " << pattern << " could not be written (errno " << -result << ")";
  warn(line.c_str());
}

void dump_or_warn(const char* pattern) { warn_of("heap profile", pattern, dump_heap_profile(pattern)); }

// The path that the pattern stands for, and the number it got.
bool next_path(const char* pattern, Text& path, unsigned* number) {
  *number = dumps.fetch_add(1, std::memory_order_relaxed) + 1;
  expand(pattern, *number, path);
  return !path.truncated();
}

int write_statistics(const char* pattern) {
  FixedText<512> path;
  unsigned number = 0;
  if (!next_path(pattern, path, &number)) return kNameTooLong;
  MappedText memory(kJsonBytes);
  if (memory.memory() == nullptr) return kNoMemory;
  Text text(memory.memory(), memory.bytes());
  write_json(text, true);
  return write_file(path.c_str(), number, text.c_str(), text.size());
}

}  // namespace

namespace {
int dump_named(const char* pattern, Text& path) {
  if (!sampling_report().available) return kNotSupported;
  unsigned number = 0;
  if (!next_path(pattern, path, &number)) return kNameTooLong;
  ProfileBytes profile{};
  if (!heap_profile(&profile)) return kNoMemory;
  int result = write_file(path.c_str(), number, profile.data, profile.bytes);
  os::unmap(profile.data, profile.mapped_bytes, os::Reason::kReport);
  return result;
}

void append_prefix_pattern(Text& pattern) {
  const char* prefix = options::get_text(options::Id::dump_prefix);
  pattern << (*prefix != 0 ? prefix : "seemalloc") << ".%p.%n.heap.pb";
}
}  // namespace

int dump_heap_profile(const char* pattern) {
  FixedText<512> path;
  return dump_named(pattern, path);
}

int dump_by_prefix(Text& path) {
  FixedText<options::kMaxTextBytes + 32> pattern;
  append_prefix_pattern(pattern);
  return dump_named(pattern.c_str(), path);
}

void dump_at_exit() {
  const char* pattern = options::get_text(options::Id::dump_at_exit);
  if (*pattern != 0) dump_or_warn(pattern);
  pattern = options::get_text(options::Id::stats_at_exit);
  if (*pattern != 0) warn_of("statistics", pattern, write_statistics(pattern));
}

void dump_on_signal() {
  FixedText<options::kMaxTextBytes + 32> pattern;
  append_prefix_pattern(pattern);
  dump_or_warn(pattern.c_str());
}

}  // namespace seemalloc
