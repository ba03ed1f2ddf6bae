// Everything the heap sampler has recorded: the one set of tables of the process, and sums over it.
//
// Written by heap_profile.cc, read by the profile writer. Threads: any; each table has its own locks.
// Lock order: unloaded modules, baseline, buckets, stacks, lives of threads, live table, thread names, arena. No two of them are held together but the last.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/profile/bucket_table.h"
#include "core/profile/deaths.h"
#include "core/profile/heap_profile.h"
#include "core/profile/live_table.h"
#include "core/profile/peak.h"
#include "core/profile/stack_table.h"
#include "core/profile/thread_lives.h"
#include "core/profile/thread_names.h"

namespace seemalloc::profile {

// The moment that a profile of the kind `since` counts from: each bucket keeps what its counts were then.
struct Baseline {
  Lock lock;  // one thread sets it at a time
  // Odd while it is being set. Marks are stored with release and loaded with acquire: who has read a new one sees an odd version.
  std::atomic<uint32_t> version{0};
  std::atomic<uint64_t> time_ns{0};  // CLOCK_MONOTONIC; 0: never set, everything counts
  std::atomic<uint64_t> allocated_bytes{0};  // exactly, until then; 0: not known
  std::atomic<uint64_t> live_bytes{0};       // exactly, then; 0: not known
};

struct Records {
  BucketTable buckets;
  StackTable stacks;
  LiveTable live;
  ThreadNames threads;  // that have recorded samples
  ThreadLivesTable thread_lives;
  Deaths deaths;
  Peak peak;
  Baseline baseline;
  std::atomic<uint64_t> first_sample_ns{0};  // CLOCK_MONOTONIC; 0: none yet
  std::atomic<uint64_t> dropped{0};         // samples lost for want of memory
  std::atomic<uint64_t> stale_resizes{0};   // resizes not followed for want of memory
  std::atomic<uint64_t> lost_lifetimes{0};  // of freed samples, for want of memory
};
extern Records records;

// Records of lifetimes by thread take a 400th of what the program has had in use, by the samples, and room for 512.
inline size_t most_thread_lives() {
  constexpr size_t kLeast = 512, kShare = 400;
  int64_t peak = records.peak.bytes();
  size_t most = kLeast + (peak > 0 ? static_cast<size_t>(peak) : 0) / (kShare * sizeof(ThreadLives));
  return most < ThreadLivesTable::kMost ? most : ThreadLivesTable::kMost;
}

// One bucket's counters, read once.
struct BucketRow {
  const Bucket* bucket;
  uint64_t alloc_samples;
  uint64_t live_samples;
  uint64_t elsewhere_samples;  // freed by another thread
  uint64_t asked_bytes;        // by the samples, since the start
  uint64_t live_asked_bytes;   // the same of those in use
  uint64_t mark_alloc, mark_live;  // counts at the baseline
  uint64_t peak_samples;           // live at the high-water mark; filled in by who wants it
  double weight;  // blocks that one sample stands for

  double alloc_objects() const { return weight * static_cast<double>(alloc_samples); }
  double live_objects() const { return weight * static_cast<double>(live_samples); }
  double elsewhere_objects() const { return weight * static_cast<double>(elsewhere_samples); }
  double peak_objects() const { return weight * static_cast<double>(peak_samples); }
  // Since the baseline; that of the live ones may be negative, the other where the baseline was set while the counts were read.
  double new_objects() const { return weight * (static_cast<double>(alloc_samples) - static_cast<double>(mark_alloc)); }
  double more_live_objects() const { return weight * (static_cast<double>(live_samples) - static_cast<double>(mark_live)); }
  double bytes() const { return static_cast<double>(bucket->key.allocated_bytes); }
};
BucketRow read_bucket(const Bucket& bucket);

// The standard error of a sum of samples. The estimate is Horvitz and Thompson's: each sample counts 1/p; under Poisson sampling its
// variance is estimated by the sum over samples of (1-p)/p² × bytes². Where a block may be missing at all, one more is allowed for: of few
// samples, or of large blocks that are nearly all sampled, that sum is too small when the estimate is. The tool does the same for parts of a
// profile (tool/report/error.go).
class SamplingError {
 public:
  // `objects` blocks were estimated, each of which has `weight` = 1/p.
  void add(double objects, double weight, double bytes) {
    double missing = objects * (1 - 1 / weight), largest = weight * bytes;
    if (!(missing > 0)) return;
    squares_ += missing * weight * bytes * bytes;  // objects are samples / p
    missing_ += missing;
    if (largest > largest_) largest_ = largest;
  }
  double variance() const {
    constexpr double kCertain = 40;  // of more than one in 40 missing blocks this one is; of fewer a part
    double part = kCertain * missing_;
    return squares_ + largest_ * largest_ * (part < 1 ? part : 1);
  }

 private:
  double squares_ = 0, missing_ = 0, largest_ = 0;
};

// Sums of rows.
class RowSums {
 public:
  void add(const BucketRow& row);
  // Rows of which only what has been allocated since the baseline counts.
  void add_new(const BucketRow& row);
  // Without dropped and stacks, which no row knows.
  SampleTotals totals() const;

 private:
  SampleTotals totals_ = {};
  SamplingError allocated_, in_use_, requested_;  // of bytes; what was requested is of what is in use
};

}  // namespace seemalloc::profile
