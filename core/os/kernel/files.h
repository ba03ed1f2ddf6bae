// Files: open, read, write, rename, remove.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

// Like open(2) with O_CLOEXEC added; returns a descriptor or -errno.
int open_file(const char* path, int flags, unsigned mode = 0600);
void close_file(int fd);
// Reads up to `bytes`; calls that a signal interrupts are repeated. Returns bytes read (0 at the
// end) or -errno.
long read_some(int fd, void* buffer, size_t bytes);
// The same from `offset` of the file.
long read_at(int fd, void* buffer, size_t bytes, uint64_t offset);
// Writes all bytes; calls that are interrupted or write less are repeated. Returns 0 or -errno.
int write_all(int fd, const void* data, size_t bytes);
// Writes to standard error.
void write_stderr(const char* text, size_t bytes);
int rename_file(const char* from, const char* to);
int remove_file(const char* path);

struct FileIdentity {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
// The identity of an open descriptor; zeroes if it is closed.
FileIdentity identity(int fd);
// The identity of the file at a path, without following links; zeroes if there is none.
FileIdentity identity(const char* path);
// Whether the path is neither a regular file nor a directory: a terminal, a pipe or a device.
bool is_special_file(const char* path);

}  // namespace seemalloc::os
