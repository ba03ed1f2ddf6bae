// The rows of a deaths profile: one per pair of allocating stack and freeing stack. The rows of a
// lifetime profile: for each bucket and allocating thread, one per age class and freeing thread
// (the same or another) of the freed blocks, and one for the live blocks. Also the labels that rows
// of buckets have in all kinds of profiles. Threads: one.
#pragma once

#include "core/profile/heap/records.h"
#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

inline constexpr unsigned kBucketLabels = 5;
// The labels of a bucket's rows: "bytes", and, if they apply, "asked", "moved", "drawn" and
// "interval" (heap_profile.h). Returns the number of labels.
unsigned bucket_labels(const BucketKey& key, uint64_t interval_bytes, Label* labels);

// Values: alive_objects, alive_space, freed_objects, freed_space. Further labels: "lifetime", an
// age class or "alive"; for freed blocks "freed_by" ("same thread", "another thread"), and "mean",
// "deviation", "least", "most" over all with the same stack, size, freed_by and thread, in
// nanoseconds; those of the thread (thread_rows.h). The freed values add up to the bucket's counts,
// regardless of how much is known by thread. For the other threads, "least" and "most" are bounds,
// as tight as is known. Returns false if memory was refused.
bool write_lifetime_rows(ProfileEncoder& encoder, const GrowArray<BucketRow>& rows,
                         uint64_t interval_bytes);

// Values: freed_objects, freed_space. Further label: "freed_by". If the freeing stack is not known,
// there is nothing below the frame that joins the two stacks.
void write_death_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes);
// The number of the bucket's freed samples, and of those with a known freeing stack.
struct FreeStackCounts {
  uint64_t known = 0, all = 0;
};
FreeStackCounts count_deaths(const Bucket& bucket);

}  // namespace seemalloc::profile
