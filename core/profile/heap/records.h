// Everything that the heap sampler has recorded: the process's single set of tables, and sums over
// them.
//
// heap_profile.cc writes the tables; the profile writer reads them. Threads: any; each table has
// its own locks.
// Lock order: unloaded modules, baseline, buckets, stacks, lives of threads, live table, thread
// names, arena. A thread holds at most one of these locks, except that it may take the arena's lock
// while it holds another.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/profile/heap/sample_totals.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/free_stacks.h"
#include "core/profile/sampling/live_table.h"
#include "core/profile/sampling/peak.h"
#include "core/profile/sampling/stack_table.h"
#include "core/profile/sampling/thread_lifetimes.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {

// The moment from which a profile of kind `since` counts. Each bucket stores its counts at that
// moment.
struct Baseline {
  Lock lock;  // one thread sets it at a time
  // Odd while the baseline is being set. Marks are stored with release and loaded with acquire: a
  // reader that has read a new mark also sees an odd version.
  std::atomic<uint32_t> version{0};
  std::atomic<uint64_t> time_ns{0};          // CLOCK_MONOTONIC; 0: never set, everything counts
  std::atomic<uint64_t> allocated_bytes{0};  // exact, up to the baseline; 0: unknown
  std::atomic<uint64_t> live_bytes{0};       // exact, at the baseline; 0: unknown
};

struct Records {
  BucketTable buckets;
  StackTable stacks;
  LiveTable live;
  ThreadTable threads;  // that have recorded samples
  ThreadLifetimesTable thread_lifetimes;
  FreeStackTable free_stacks;
  PeakTracker peak;
  Baseline baseline;
  std::atomic<uint64_t> first_sample_ns{0};  // CLOCK_MONOTONIC; 0: none yet
  std::atomic<uint64_t> dropped{0};          // samples lost for lack of memory
  std::atomic<uint64_t> stale_resizes{0};    // resizes not recorded for lack of memory
  // Lifetimes of freed samples, lost for lack of memory.
  std::atomic<uint64_t> lost_lifetimes{0};
};
extern Records records;

// The maximum number of per-thread lifetime records: 1/400 of the peak of live bytes (estimated
// from samples), but at least 512 records.
inline size_t max_thread_lifetimes() {
  constexpr size_t kMin = 512, kShare = 400;
  int64_t peak = records.peak.bytes();
  size_t most =
      kMin + (peak > 0 ? static_cast<size_t>(peak) : 0) / (kShare * sizeof(ThreadLifetimes));
  return most < ThreadLifetimesTable::kMaxRecords ? most : ThreadLifetimesTable::kMaxRecords;
}

// One bucket's counters, read once.
struct BucketRow {
  const Bucket* bucket;
  uint64_t alloc_samples;
  uint64_t live_samples;
  uint64_t remote_freed_samples;  // freed by another thread
  uint64_t requested_bytes;       // requested bytes of all samples since the start
  uint64_t live_requested_bytes;  // requested bytes of the live samples
  uint64_t baseline_alloc_samples, baseline_live_samples;  // counts at the baseline
  uint64_t peak_samples;  // live at the high-water mark; filled in by the caller that needs it
  double weight;          // blocks that one sample stands for

  double alloc_objects() const { return weight * static_cast<double>(alloc_samples); }
  double live_objects() const { return weight * static_cast<double>(live_samples); }
  double remote_freed_objects() const { return weight * static_cast<double>(remote_freed_samples); }
  double peak_objects() const { return weight * static_cast<double>(peak_samples); }
  // Objects since the baseline. live_objects_since_baseline() may be negative;
  // alloc_objects_since_baseline() may be negative if the baseline was set while the counts were
  // read.
  double alloc_objects_since_baseline() const {
    return weight *
           (static_cast<double>(alloc_samples) - static_cast<double>(baseline_alloc_samples));
  }
  double live_objects_since_baseline() const {
    return weight *
           (static_cast<double>(live_samples) - static_cast<double>(baseline_live_samples));
  }
  // At most this many objects are live at only one of the baseline and now: no more than were
  // allocated and freed in between, and no more than were live at either. The error of a difference
  // rests on them (tool/report/pair.go).
  double objects_differing_from_baseline() const {
    double grown = static_cast<double>(live_samples) - static_cast<double>(baseline_live_samples);
    double allocated =
        static_cast<double>(alloc_samples) - static_cast<double>(baseline_alloc_samples);
    if (allocated < grown) allocated = grown;  // resized in place
    if (allocated < 0) allocated = 0;
    double changes = 2 * allocated - grown;
    double live = static_cast<double>(live_samples) + static_cast<double>(baseline_live_samples);
    return weight * (changes < live ? changes : live);
  }
  double bytes() const { return static_cast<double>(bucket->key.allocated_bytes); }
};
BucketRow read_bucket(const Bucket& bucket);

// The standard error of a sum of samples. The sum is the Horvitz-Thompson estimate: each sample
// counts 1/p. Under Poisson sampling, its variance is estimated by the sum over samples of (1-p)/p²
// × bytes². With few samples, or with large blocks of which nearly all are sampled, that variance
// estimate is too small exactly when the sum is too small. Therefore one more block is allowed for
// if any block may be missing: the square of the largest weight × bytes is added. The tool does the
// same for parts of a profile (tool/report/error.go).
class SamplingError {
 public:
  // Adds `objects` estimated blocks of `bytes` each, every one with `weight` = 1/p.
  void add(double objects, double weight, double bytes) {
    double missing = objects * (1 - 1 / weight), largest = weight * bytes;
    if (!(missing > 0)) return;
    squares_ += missing * weight * bytes * bytes;  // objects are samples / p
    missing_blocks_ += missing;
    if (largest > largest_) largest_ = largest;
  }
  double variance() const {
    // Expected missing blocks ≥ 1/40: add the whole extra block; else a part.
    constexpr double kMissingScale = 40;
    double part = kMissingScale * missing_blocks_;
    return squares_ + largest_ * largest_ * (part < 1 ? part : 1);
  }

 private:
  double squares_ = 0, missing_blocks_ = 0, largest_ = 0;
};

// Sums of rows.
class RowSums {
 public:
  void add(const BucketRow& row);
  // Adds a row of which only the allocations since the baseline count.
  void add_new(const BucketRow& row);
  // `dropped` and `stacks` are not set, because rows do not have them.
  SampleTotals totals() const;

 private:
  SampleTotals totals_ = {};
  // Errors in bytes; requested_: requested bytes of live blocks.
  SamplingError allocated_, in_use_, requested_;
};

}  // namespace seemalloc::profile
