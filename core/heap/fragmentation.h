// Fragmentation by the heap's books: free blocks, without holes, in spans that live blocks keep; and what each sampled block has to do
// with it. How much of such spans is resident: core/heap/residency.h.
//
// Who calls: core/api, when somebody asks. Threads: any; locks are taken span by span for the samples, region by region for the
// bytes, for some microseconds each. What moves meanwhile may be seen twice or not at all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::heap {

struct SampleShare {
  const void* block;
  uint32_t sample_id;  // 0: not recorded
  bool has_home;
  // The free bytes for each live block in the ordinary span that it would be in, and in the one that it is in.
  double home_bytes, own_bytes;
};
// Calls f for each sampled block of the size classes, under a lock: f allocates nothing and makes no system call.
void for_each_sample_share(void (*f)(void* context, const SampleShare& share), void* context);

// All such free bytes: exact while no thread allocates or frees.
size_t fragmented_bytes();

}  // namespace seemalloc::heap
