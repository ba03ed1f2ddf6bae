// The heap profile as text, in the forms that gperftools and jemalloc write and that their own
// tools read.
//
// Callers: the other files of this directory. Threads: any. Allocates nothing from the heap: the
// text is in an anonymous mapping.
#pragma once

#include <cstddef>

#include "core/api/sampling/sampling.h"
#include "core/os/kernel/files.h"
#include "core/os/process/socket.h"

namespace seemalloc::compat {

enum class HeapText {
  // Gperftools' GetHeapSample: counts of samples, "heap_v2/interval"; the reader scales them up.
  kSampled,
  // gperftools' heap profiler: estimates, "heapprofile"; the reader takes them as they are. Covers
  // the time since HeapProfilerStart, if that was called.
  kAbsolute,
  kJemalloc,  // jemalloc's prof.dump, as jeprof reads it
  kGrowth,    // gperftools' GetHeapGrowthStacks: the stacks that made the heap grow, exact
};

// For HeapProfilerStart: blocks sampled until now are not in its profiles. Returns false if memory
// is refused.
bool reset_absolute_profile();

// The interval that sampled texts name: the current one, or the last one while sampling is off.
uint64_t header_interval();
// The number of live samples to write for a row, so that a reader that scales it up by this
// interval gets our estimate.
uint64_t rescaled_live_samples(const SampleRow& row, uint64_t interval);

// Returns false if memory is refused. The text is NUL-terminated. The caller frees it with
// os::unmap_report(out->data, out->mapped_bytes).
bool heap_text(HeapText form, ProfileBytes* out);
// Writes the text to a file (core/api/dumps/dump.h). Returns 0 or -errno.
int write_heap_text(HeapText form, const char* path, os::FileIdentity* file = nullptr);

}  // namespace seemalloc::compat
