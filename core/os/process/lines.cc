#include "core/os/process/lines.h"

#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"

namespace seemalloc::os {

bool Lines::fill() {
  if (fd_ < 0) return false;
  char* buffer = buffer_->at;
  if (start_ == 0 && filled_ == sizeof(Buffer)) {
    line_truncated_ = true;
    filled_ = 0;
  }
  for (size_t i = start_; i < filled_; i++) buffer[i - start_] = buffer[i];
  filled_ -= start_;
  start_ = 0;
  long got = sys_uninterrupted(SYS_pread64, fd_, as_long(buffer + filled_),
                               static_cast<long>(sizeof(Buffer) - filled_), offset_);
  if (got <= 0) return false;
  filled_ += static_cast<size_t>(got);
  offset_ += got;
  return true;
}

}  // namespace seemalloc::os
