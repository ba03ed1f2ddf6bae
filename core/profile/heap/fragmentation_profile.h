// FragmentationProfile: free memory in half-empty spans, charged to the stacks of the live blocks
// that keep these spans.
//
// A sample of weight w stands for itself, in the span that it is in, and for w-1 blocks like it in
// ordinary spans. core/heap/reports/fragmentation.h computes the charge of each; this class weights
// and sums them. So the sum over all samples is an unbiased estimate of the charges of all live
// blocks. Each sample contributes the variance (1-p)(w-1)²x², where p = 1/w and x is the charge of
// such a block in an ordinary span.
// Threads: one. add() makes no system call, takes no lock and never calls malloc, because it is
// called under the heap's locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/heap/heap_profile.h"
#include "core/profile/pprof/buffer.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

class ProfileEncoder;

// Figures that are known without samples.
struct FragmentationTotals {
  // Free blocks in spans with live blocks, by the heap's counters
  // (core/heap/reports/fragmentation.h); charged to stacks.
  uint64_t free_bytes;
  // Resident bytes between live blocks: the `fragmentation` of the statistics.
  uint64_t resident_bytes;
  uint64_t uncertain_bytes;  // maximum error of resident_bytes
};

class FragmentationProfile {
 public:
  // Reserves memory for all live samples. Returns false if memory was refused.
  bool begin();
  // Requires: the sample is live. Each sample counts once.
  void add(SampleId id, double home_bytes, double own_bytes, bool has_home);
  // Value types: fragmentation_objects, fragmentation_space. Returns false if memory was refused.
  bool finish(Buffer* out, uint64_t interval_bytes, const FragmentationTotals& totals);

 private:
  struct Charge {
    const Bucket* bucket;
    SampleId id;
    float home_bytes, own_bytes;
  };

  size_t write_row(ProfileEncoder& encoder, size_t first);
  double standard_error(uint64_t free_bytes) const;
  void write_comments(ProfileEncoder& encoder, const FragmentationTotals& totals) const;

  GrowArray<Charge> charges_;
  uint64_t skipped_samples_ = 0;  // samples that arrived during the walk and found no room
  uint64_t samples_without_home_ = 0;
  uint64_t truncated_ = 0, broken_ = 0;  // samples with an incomplete stack
  bool is_sampled_ = false;              // not every block is sampled
  double charged_bytes_ = 0;
  double variance_ = 0;
};

}  // namespace seemalloc::profile
