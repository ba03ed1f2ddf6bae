#include "core/api/dumps/dump.h"

#include <fcntl.h>

#include <atomic>

#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/sampling/sampling.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"

namespace seemalloc {

using options::Id;

namespace {

constexpr int kNotSupported = -95;  // -EOPNOTSUPP

std::atomic<unsigned> files{0};
std::atomic<bool> warned{false};
std::atomic<uint64_t> written{0}, failed{0}, removed{0}, joined{0};
std::atomic<int> last_error{0};
using WriteHeapDump = int (*)(const char* path, os::FileIdentity* file);
// By the value of dump_names; null: profile.proto.
constinit const WriteHeapDump kWriteHeapDump[options::kDumpNames]{nullptr, write_gperftools_text,
                                                                  write_jemalloc_text};

}  // namespace

int write_file(const char* path, const char* data, size_t bytes, os::FileIdentity* file) {
  if (os::is_special_file(path)) return os::write_special_file(path, data, bytes);
  FixedText<kDumpPathBytes + 64> beside;
  beside << path << ".tmp." << os::process_id() << "."
         << files.fetch_add(1, std::memory_order_relaxed);
  if (beside.truncated()) return kDumpNameTooLong;
  int fd = os::open_file(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) return fd;
  int result = os::write_all(fd, data, bytes);
  if (file != nullptr) *file = os::identity(fd);
  os::close_file(fd);
  if (result == 0) result = os::rename_file(beside.c_str(), path);
  if (result != 0) os::remove_file(beside.c_str());
  return result;
}

int count_dump(int result) {
  (result == 0 ? written : failed).fetch_add(1, std::memory_order_relaxed);
  if (result != 0) last_error.store(-result, std::memory_order_relaxed);
  return result;
}

namespace {

int write_kind(const ProfileKind& kind, const char* path, os::FileIdentity* identity = nullptr) {
  if (!sampling_report().available) return kNotSupported;
  ProfileBytes profile{};
  if (!kind.collect(&profile)) return kDumpNoMemory;
  int result = write_file(path, profile.data, profile.bytes, identity);
  release_profile(profile);
  return result;
}

const ProfileKind& heap_kind() { return *find_profile_kind("heap"); }

}  // namespace

int dump_profile(const ProfileKind& kind, const char* pattern, Text* path) {
  FixedText<kDumpPathBytes> name;
  int result = dump_name_from(pattern, name) ? write_kind(kind, name.c_str()) : kDumpNameTooLong;
  if (path != nullptr) *path << name.c_str();
  return count_dump(result);
}

int dump_heap_profile(const char* pattern) { return dump_profile(heap_kind(), pattern); }

int write_profile(const ProfileBytes& profile, const char* pattern) {
  FixedText<kDumpPathBytes> path;
  return count_dump(dump_name_from(pattern, path)
                        ? write_file(path.c_str(), profile.data, profile.bytes)
                        : kDumpNameTooLong);
}

int write_profile_as(const ProfileBytes& profile, const char* path) {
  return count_dump(write_file(path, profile.data, profile.bytes));
}

namespace {
constexpr const char* kReasons[kDumpReasons] = {"dump_alloc_interval",
                                                "dump_inuse_interval",
                                                "dump_growth_interval",
                                                "dump_time_interval",
                                                "dump_on_failure",
                                                "dump_signal",
                                                "requested",
                                                "at exit"};

void report_dump(DumpReason reason, const char* path) {
  if (options::get(Id::verbose) == 0) return;
  FixedText<kDumpPathBytes + 64> line;
  line << "heap profile " << path << " (" << kReasons[static_cast<unsigned>(reason)] << ")";
  warn(line.c_str());
}
}  // namespace

int dump_by_prefix(DumpReason reason, Text& path, os::FileIdentity* file) {
  // Read once, so that the contents match the name.
  uint64_t names = options::get(Id::dump_names);
  WriteHeapDump write = kWriteHeapDump[names];
  int result = kDumpNameTooLong;
  if (next_dump_name(reason, static_cast<options::DumpNames>(names), path))
    result =
        write != nullptr ? write(path.c_str(), file) : write_kind(heap_kind(), path.c_str(), file);
  if (result == 0) report_dump(reason, path.c_str());
  return count_dump(result);
}

void warn_of_failed_dump(const char* what, const char* path, int result) {
  if (result == 0 || warned.exchange(true, std::memory_order_relaxed)) return;
  FixedText<kDumpPathBytes + 128> line;
  line << what << " " << path << " could not be written (errno " << -result << ")";
  warn(line.c_str());
}

DumpStatistics dump_statistics() {
  return {written.load(std::memory_order_relaxed), failed.load(std::memory_order_relaxed),
          removed.load(std::memory_order_relaxed), joined.load(std::memory_order_relaxed),
          last_error.load(std::memory_order_relaxed)};
}

void count_removed_dumps(unsigned count) { removed.fetch_add(count, std::memory_order_relaxed); }
void count_joined_dumps(unsigned count) { joined.fetch_add(count, std::memory_order_relaxed); }

}  // namespace seemalloc
