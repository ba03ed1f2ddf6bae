// The heap map as the control socket gives it: JSON, a line for each region, huge block and kept range; docs/map.md has the fields.
//
// All regions in sums, all huge blocks, and RSS explained as in the statistics (report.h); or those of a range of addresses, with the parts of regions, and for each span who pins it: the sampled block that has lain
// there longest, or would (heap/homes.h), by stack, thread and age. The last line says what there was no room for.
// Threads: the helper; tests. Memory of its own is mapped; malloc is never called. No lock is held while
// text of regions is written; the lines of huge blocks are written under the lock of their list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/api/mapped_text.h"
#include "core/base/text.h"

namespace seemalloc {

struct HeapMapRequest {
  uint64_t from = 0, to = UINT64_MAX;  // of regions and huge blocks, where they begin
  bool with_parts = false;
};

class HeapMapJson {
 public:
  explicit HeapMapJson(const HeapMapRequest& request);
  // The same with room for so many bytes of text.
  HeapMapJson(const HeapMapRequest& request, size_t room);

  // False when memory was refused.
  bool write();
  // Requires: write() has been true.
  const Text& text() const { return text_; }
  // The text's memory, for the caller to take over.
  MappedText& memory() { return memory_; }

 private:
  HeapMapRequest request_;
  size_t room_;
  MappedText memory_;
  char nothing_[1];
  Text text_;
};

}  // namespace seemalloc
