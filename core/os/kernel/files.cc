#include "core/os/kernel/files.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>

#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"

namespace seemalloc::os {

int open_file(const char* path, int flags, unsigned mode) {
  return static_cast<int>(
      sys(SYS_openat, AT_FDCWD, as_long(path), flags | O_CLOEXEC, static_cast<long>(mode)));
}

void close_file(int fd) { sys(SYS_close, fd); }

long read_some(int fd, void* buffer, size_t bytes) {
  return sys_uninterrupted(SYS_read, fd, as_long(buffer), static_cast<long>(bytes));
}

long read_at(int fd, void* buffer, size_t bytes, uint64_t offset) {
  return sys_uninterrupted(SYS_pread64, fd, as_long(buffer), static_cast<long>(bytes),
                           static_cast<long>(offset));
}

int write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    long result = sys_uninterrupted(SYS_write, fd, as_long(at), static_cast<long>(bytes));
    if (sys_failed(result)) return static_cast<int>(result);
    at += result;
    bytes -= static_cast<size_t>(result);
  }
  return 0;
}

// For output that the program requested, and for the line before the process ends. Works in a
// sandbox too.
void write_stderr(const char* text, size_t bytes) {
  constexpr long kInterrupted = -4;  // -EINTR
  for (unsigned interruptions = 0; bytes != 0 && interruptions < kMaxInterruptions;) {
    long result = raw_sys(SYS_write, 2, as_long(text), static_cast<long>(bytes), 0, 0, 0);
    if (result == kInterrupted) {
      interruptions++;
      continue;
    }
    if (sys_failed(result)) return;
    text += result;
    bytes -= static_cast<size_t>(result);
  }
}

int rename_file(const char* from, const char* to) {
  return static_cast<int>(sys(SYS_renameat2, AT_FDCWD, as_long(from), AT_FDCWD, as_long(to), 0));
}

int remove_file(const char* path) {
  return static_cast<int>(sys(SYS_unlinkat, AT_FDCWD, as_long(path), 0));
}

namespace {
bool status_of(int folder_fd, const char* path, int flags, unsigned mask, struct statx* out) {
  return !sys_failed(
      sys(SYS_statx, folder_fd, as_long(path), flags, static_cast<long>(mask), as_long(out)));
}
}  // namespace

FileIdentity identity(int fd) {
  struct statx status {};
  if (!status_of(fd, "", AT_EMPTY_PATH, STATX_INO, &status)) return {};
  return {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
}

FileIdentity identity(const char* path) {
  struct statx status {};
  if (!status_of(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &status)) return {};
  return {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
}

bool is_special_file(const char* path) {
  struct statx status {};
  if (!status_of(AT_FDCWD, path, 0, STATX_TYPE, &status)) return false;
  return !S_ISREG(status.stx_mode) && !S_ISDIR(status.stx_mode);
}

}  // namespace seemalloc::os
