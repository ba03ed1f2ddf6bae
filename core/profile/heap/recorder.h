// Recorder: per-thread state that makes samples cheap: the stacks that the thread sampled recently,
// free ids of the live table, and the back-off of its sampling interval.
//
// core/api makes it for a thread heap, and it stays with the heap when another thread adopts that.
// Threads: the heap's. A signal handler that allocates while its thread uses the recorder finds it
// `busy` and works without it.
#pragma once

#include "core/base/units.h"
#include "core/profile/sampling/live_table.h"
#include "core/profile/sampling/sample_rate_limiter.h"
#include "core/profile/unwind/stack_cache.h"

namespace seemalloc::profile {

struct Recorder {
  bool busy;
  SampleRateLimiter rate_limiter;
  IdCache ids;
  int64_t pending_bytes;  // live bytes not yet reported to the peak
  StackCache alloc_stacks;
  StackCache free_stacks;  // stacks that free; these entries have no bucket
};
// Each thread that takes a sample has one.
static_assert(sizeof(Recorder) <= 2 * KiB);

// The calling thread's use of a recorder. get() returns null if there is none or it is busy.
class RecorderUse {
 public:
  explicit RecorderUse(Recorder* recorder)
      : recorder_(recorder != nullptr && !recorder->busy ? recorder : nullptr) {
    if (recorder_ != nullptr) recorder_->busy = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~RecorderUse() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (recorder_ != nullptr) recorder_->busy = false;
  }
  RecorderUse(const RecorderUse&) = delete;
  RecorderUse& operator=(const RecorderUse&) = delete;

  Recorder* get() const { return recorder_; }

 private:
  Recorder* recorder_;
};

}  // namespace seemalloc::profile
