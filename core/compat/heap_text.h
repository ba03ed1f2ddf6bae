// The heap profile as text, in the forms that gperftools and jemalloc write and that their own tools read.
//
// Who calls: the other files of this folder. Threads: any. Nothing here is allocated from the heap: an anonymous mapping holds it.
#pragma once

#include <cstddef>

#include "core/api/sampling.h"
#include "core/os/socket.h"

namespace seemalloc::compat {

enum class HeapText {
  kSampled,   // gperftools' GetHeapSample: counts of samples, "heap_v2/interval": the reader scales them up
  kAbsolute,  // gperftools' heap profiler: estimates, "heapprofile": the reader takes them as they are. Since HeapProfilerStart, if it was called
  kJemalloc,  // jemalloc's prof.dump, as jeprof reads it
  kGrowth,    // gperftools' GetHeapGrowthStacks: who made the heap grow, exact
};

// HeapProfilerStart: what was sampled until now is not in its profiles. False when memory is refused.
bool begin_absolute_anew();

// The interval that sampled texts name: that of now, or the last one while nothing is sampled.
uint64_t named_interval();
// How many live samples a row says it has, so that a reader who scales them up by this interval comes to our estimate.
uint64_t live_samples_at(const SampleRow& row, uint64_t interval);

// False when memory is refused. Give it back with os::unmap(out->data, out->mapped_bytes, os::Reason::kReport). The text is
// NUL-terminated.
bool heap_text(HeapText form, ProfileBytes* out);
// The same to a file (core/api/dump.h). 0 or -errno.
int write_heap_text(HeapText form, const char* path, os::FileIdentity* file = nullptr);

}  // namespace seemalloc::compat
