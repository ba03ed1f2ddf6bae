// The heap map as the control socket returns it: JSON, a line for each region, huge block and
// retained range; docs/map.md describes the fields.
//
// Either sums of all regions, all huge blocks, and the breakdown of RSS as in the statistics
// (report.h); or the regions and huge blocks of a range of addresses, with the parts of regions,
// and for each span the sample that pins it: the oldest sampled block of the span, or of those
// whose home it is (heap/spans/homes.h), with stack, thread and age. The last line reports the
// parts that did not fit.
// Threads: the helper thread; tests. Its memory is mapped; malloc is never called. No lock is held
// while text of regions is written; the lines of huge blocks are written under the lock of their
// list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/api/service/mapped_text.h"
#include "core/base/text.h"

namespace seemalloc {

struct HeapMapRequest {
  uint64_t from = 0, to = UINT64_MAX;  // of regions and huge blocks, by their start
  bool with_parts = false;
};

class HeapMapJson {
 public:
  explicit HeapMapJson(const HeapMapRequest& request);
  // The same with a buffer of `room` bytes of text.
  HeapMapJson(const HeapMapRequest& request, size_t room);

  // False when memory was refused.
  bool write();
  // Requires: write() has returned true.
  const Text& text() const { return text_; }
  // The text's memory, which the caller may take over.
  MappedText& memory() { return memory_; }

 private:
  HeapMapRequest request_;
  size_t room_;
  MappedText memory_;
  char nothing_[1];
  Text text_;
};

}  // namespace seemalloc
