// The rows of a deaths profile: one for each pair of where blocks were allocated and where they were freed. The rows of a lifetime
// profile: one for each power of ten of age at which a bucket's blocks died, by the thread that allocated them and by whom they were freed,
// and one for those that live. And the labels that rows of buckets have in all kinds. Threads: one.
#pragma once

#include "core/profile/grow_array.h"
#include "core/profile/profile_encoder.h"
#include "core/profile/records.h"

namespace seemalloc::profile {

inline constexpr unsigned kBucketLabels = 5;
// The labels of a bucket's rows: "bytes", perhaps "asked", "moved", "drawn" and "interval" (heap_profile.h). Returns their number.
unsigned bucket_labels(const BucketKey& key, uint64_t interval_bytes, Label* labels);

// Values: alive_objects, alive_space, freed_objects, freed_space. Labels besides: "lifetime", a class of age, or "alive"; of
// the freed "freed_by" ("same thread", "another thread"), and "mean", "deviation", "least", "most" of all with the same
// stack, size, freed_by and thread, in nanoseconds; the thread's (thread_rows.h). Those freed add up to what the bucket counted, whatever
// is known of threads; "least" and "most" of the other threads lie no further apart than what is known. False when memory was refused.
bool write_lifetime_rows(ProfileEncoder& encoder, const GrowArray<BucketRow>& rows, uint64_t interval_bytes);

// Values: freed_objects, freed_space. The label "freed_by" besides. Below the frame that joins the two stacks is nothing where the
// second is not known.
void write_death_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes);
// Samples of the bucket that were freed, and those of them whose stack that freed is known.
struct DeathCounts {
  uint64_t known = 0, all = 0;
};
DeathCounts count_deaths(const Bucket& bucket);

}  // namespace seemalloc::profile
