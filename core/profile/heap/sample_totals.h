#pragma once

#include <cstdint>

namespace seemalloc::profile {

// Sums over all samples (heap_profile.h), or over rows of buckets (records.h).
struct SampleTotals {
  uint64_t samples;       // recorded since the process started
  uint64_t live_samples;  // not yet freed
  uint64_t dropped;       // lost for lack of memory
  uint64_t stacks;        // distinct stacks of samples
  // Of `samples`: those whose stack is truncated, or could not be unwound to its end.
  uint64_t truncated_samples, broken_samples;
  // Unbiased estimates of all allocations, with weights 1/(1-exp(-allocated/interval)).
  double alloc_objects, alloc_bytes, inuse_objects, inuse_bytes;
  double alloc_bytes_stderr;                                   // standard error of alloc_bytes
  double inuse_bytes_stderr;                                   // likewise
  double inuse_requested_bytes, inuse_requested_bytes_stderr;  // requested bytes of live blocks
};

}  // namespace seemalloc::profile
