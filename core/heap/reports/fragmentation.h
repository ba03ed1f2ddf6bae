// Fragmentation by the heap's counters: free blocks, without holes, in spans that live blocks keep;
// and the share of each sampled block in it. For the resident part of such spans see
// core/heap/reports/residency.h.
//
// Caller: core/api, on request. Threads: any. Locks are held for some microseconds each: span by
// span for the samples, region by region for the bytes. Spans that change meanwhile may be seen
// twice or not at all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::heap {

struct SampleCharge {
  const void* block;
  uint32_t sample_id;  // 0: not recorded
  bool has_home;
  // Free bytes per live block, in the ordinary span that the block would be in, and in the one that
  // it is in.
  double home_bytes, own_bytes;
};
// Calls f for each sampled block of the size classes, under a lock: f must not allocate or make
// system calls.
void for_each_sample_charge(void (*f)(void* context, const SampleCharge& share), void* context);

// All such free bytes: exact while no thread allocates or frees.
size_t fragmented_bytes();

}  // namespace seemalloc::heap
