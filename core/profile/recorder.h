// What one thread keeps so that its samples are cheap: the stacks it has sampled lately, ids for the live table, and how
// far apart they have to be.
//
// Made by core/api for a thread heap, and handed on with it. Threads: the heap's. A signal handler that allocates while
// its thread is in here finds it `busy` and does without.
#pragma once

#include "core/base/units.h"
#include "core/profile/live_table.h"
#include "core/profile/sample_pace.h"
#include "core/profile/stack_memo.h"

namespace seemalloc::profile {

struct Recorder {
  bool busy;
  SamplePace pace;
  IdCache ids;
  int64_t pending_bytes;  // in use, of which the peak does not know yet
  StackMemo memo;
  StackMemo deaths;  // stacks that free: their entries have no bucket
};
// Each thread that takes a sample has one.
static_assert(sizeof(Recorder) <= 2 * KiB);

// The calling thread's use of a recorder: get() is null when there is none or it is in use.
class RecorderUse {
 public:
  explicit RecorderUse(Recorder* recorder) : recorder_(recorder != nullptr && !recorder->busy ? recorder : nullptr) {
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
