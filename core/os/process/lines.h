// Lines: reads a file line by line, without allocation. For the kernel's files, whose text is
// generated while it is read.
// Threads: its owner's.
#pragma once

#include <fcntl.h>

#include "core/os/kernel/files.h"
#include "core/os/process/cgroup_text.h"
#include "core/os/process/descriptor.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::os {

// Lines that do not fit the buffer (mounts of many layers) are skipped.
class Lines {
 public:
  explicit Lines(const char* path) : fd_(open_file(path, O_RDONLY)), closes_(true) {}
  // Reads a file that stays open. If its descriptor is no longer ours, there are no lines.
  explicit Lines(const CheckedDescriptor& kept)
      : fd_(kept.is_ours() ? kept.fd : -1), closes_(false) {}
  ~Lines() {
    if (closes_ && fd_ >= 0) close_file(fd_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool next(Slice* line) {
    if (!buffer_) return false;
    for (;;) {
      size_t end = start_;
      while (end < filled_ && buffer_->at[end] != '\n') end++;
      if (end == filled_) {
        if (fill()) continue;
        end = filled_;  // fill() moves the contents
        if (start_ == end) return false;
      }
      bool whole = !line_truncated_;
      *line = Slice{buffer_->at + start_, end - start_};
      start_ = end < filled_ ? end + 1 : end;
      line_truncated_ = false;
      if (whole) return true;
    }
  }

 private:
  // Reads more characters behind the ones from start_ on. Returns false at the end of the file.
  bool fill();

  int fd_;
  bool closes_;
  long offset_ = 0;
  bool line_truncated_ = false;  // the beginning of the line was dropped
  size_t start_ = 0;
  size_t filled_ = 0;
  struct Buffer {
    char at[1024];
  };
  Scratch<Buffer> buffer_;  // if it is absent, there are no lines
};

}  // namespace seemalloc::os
