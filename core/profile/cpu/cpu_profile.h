// CpuProfile: a CPU profile: stacks by thread with the number of samples each, summed up from the
// samples of a CpuSampleStore. write_cpu_profile() writes it as profile.proto (samples/count,
// cpu/nanoseconds; labels "thread" and "tid", as in thread_rows.h).
//
// Each stack has a row of the other threads (number 0). That row stores the frames for the rows of
// single threads. Its counts are zero as long as there is room for more rows.
// Bounded scratch memory of its own; never uses malloc. Threads: one at a time, not in signal
// handlers. Zeroed memory is an empty object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/process/threads.h"
#include "core/profile/cpu/cpu_store.h"
#include "core/profile/pprof/buffer.h"
#include "core/profile/sampling/grow_array.h"
#include "core/profile/sampling/relocated_code.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {

class CpuProfile {
 public:
  struct Row {
    uint64_t hash;  // of the stack
    uint64_t interrupts, ticks;
    size_t first;  // index of its first frame
    uint32_t thread;
    uint32_t depth;
    bool truncated, broken;
  };

  // Maximum number of frames: they take 64 MiB. Samples of stacks that are new after that are lost.
  static constexpr size_t kMaxFrames = size_t{8} << 20;

  // Maximum number of rows of single threads: with their slots they take 22 MiB. Further ones are
  // added to the row of the other threads.
  static constexpr size_t kMaxThreadRows = size_t{1} << 18;

  // Adds to the sample's row. Samples for which there is no memory are counted as lost.
  void add(const CpuSample& sample);

  // For an unloaded module: stacks may still have its addresses.
  bool any_in(const RelocatedCode& code) const;
  void relocate_code(const RelocatedCode& moved);

  size_t size() const { return rows_.size(); }
  size_t stacks() const { return stacks_; }
  const Row& operator[](size_t i) const { return rows_[i]; }
  const uintptr_t* frames(const Row& row) const { return frames_.data() + row.first; }
  uint64_t lost() const { return lost_; }
  uint64_t lost_ticks() const { return lost_ticks_; }

 private:
  Row* find(const CpuSample& sample, uint32_t thread);
  Row* insert_stack(const CpuSample& sample);
  Row* insert_thread(const CpuSample& sample, const Row& stack);
  void insert(const Row& row);
  bool reserve_row(size_t frames);
  size_t slot_of(uint64_t hash, uint32_t thread) const {
    return mix(hash, thread) & (slots_.size() - 1);
  }

  GrowArray<Row> rows_;
  GrowArray<uintptr_t> frames_;
  GrowArray<uint32_t> slots_;  // size is a power of two; index of a row plus 1, 0: free
  size_t stacks_ = 0;
  uint64_t lost_ = 0, lost_ticks_ = 0;
};

// Properties of a profile other than its stacks.
struct CpuProfileStats {
  os::ThreadClock clock;
  uint64_t period_ns;
  uint64_t duration_ns;
  uint64_t interrupts;
  uint64_t evictions;
  uint64_t lost, lost_ticks;       // in the store
  uint64_t process_cpu_ns;         // CPU time of the process in this time, as counted by the kernel
  uint64_t threads;                // that had a timer at any time
  uint64_t threads_without_timer;  // for which the timer was refused
  const char* end_reason;          // reason for ending before it was stopped; null: none
};

// `threads` may be null if there are no samples. Returns false if memory was refused.
bool write_cpu_profile(const CpuProfile& sums, ThreadTable* threads, const CpuProfileStats& facts,
                       Buffer* out);

}  // namespace seemalloc::profile
