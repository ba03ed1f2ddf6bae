// MappedText: memory for an answer or a file, since the helper thread's stack is small.
#pragma once

#include <cstddef>

#include "core/os/runtime/report_memory.h"

namespace seemalloc {

// memory() is null if it was refused.
class MappedText {
 public:
  explicit MappedText(size_t bytes)
      : bytes_(bytes), memory_(static_cast<char*>(os::map_report(bytes))) {}
  ~MappedText() {
    if (memory_ != nullptr) os::unmap_report(memory_, bytes_);
  }
  MappedText(const MappedText&) = delete;
  MappedText& operator=(const MappedText&) = delete;
  char* memory() const { return memory_; }
  size_t bytes() const { return bytes_; }
  // The caller frees the memory by os::unmap_report.
  char* release() {
    char* memory = memory_;
    memory_ = nullptr;
    return memory;
  }

 private:
  size_t bytes_;
  char* memory_;
};

}  // namespace seemalloc
