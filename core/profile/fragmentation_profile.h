// The fragmentation profile: free memory in half-empty spans, charged to the stacks of the live blocks that keep it there.
//
// A sample of weight w stands for itself, where it lies, and for w-1 blocks like it in ordinary spans. What each of them is charged,
// core/heap/fragmentation.h knows; here it is weighted and summed up. So the sum over all samples is right on average for what
// all live blocks are charged, with the variance (1-p)(w-1)²x² for each, p = 1/w.
// Threads: one. add() makes no system call, takes no lock and never calls malloc: it is called under the heap's locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/buffer.h"
#include "core/profile/bucket_table.h"
#include "core/profile/grow_array.h"
#include "core/profile/heap_profile.h"

namespace seemalloc::profile {

class ProfileEncoder;

// What is known without samples.
struct FragmentationTotals {
  uint64_t booked_bytes;    // free blocks of spans with live blocks, by the heap's books (core/heap/fragmentation.h): what is charged to stacks
  uint64_t resident_bytes;  // what is resident between live blocks: the `fragmentation` of the statistics
  uint64_t uncertain_bytes;  // by how much that may be off
};

class FragmentationProfile {
 public:
  // Makes room for all samples that are alive. False when memory was refused.
  bool begin();
  // Requires: the sample is alive. Each sample counts once.
  void add(SampleId id, double home_bytes, double own_bytes, bool has_home);
  // fragmentation_objects, fragmentation_space. False when memory was refused.
  bool finish(Buffer* out, uint64_t interval_bytes, const FragmentationTotals& totals);

 private:
  struct Charge {
    const Bucket* bucket;
    SampleId id;
    float home_bytes, own_bytes;
  };

  size_t write_bucket(ProfileEncoder& encoder, size_t first);
  double standard_error(uint64_t booked_bytes) const;
  void write_comments(ProfileEncoder& encoder, const FragmentationTotals& totals) const;

  GrowArray<Charge> charges_;
  uint64_t left_out_ = 0;   // came while this was going on
  uint64_t homeless_ = 0;
  uint64_t truncated_ = 0, broken_ = 0;  // samples whose stack is not whole
  bool by_chance_ = false;               // not every block is a sample
  double charged_bytes_ = 0;
  double variance_ = 0;
};

}  // namespace seemalloc::profile
