// A CPU profile: stacks with how often each was found, added up from the samples that a CpuStore gives, and written as
// profile.proto (samples/count, cpu/nanoseconds).
//
// Scratch memory of its own, bounded; never malloc. Threads: one at a time, in no signal handler. Zeroed memory is an empty one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/threads.h"
#include "core/profile/buffer.h"
#include "core/profile/cpu_store.h"
#include "core/profile/grow_array.h"

namespace seemalloc::profile {

class CpuSums {
 public:
  struct Row {
    uint64_t hash;
    uint64_t interrupts, ticks;
    size_t first;  // of its frames
    uint32_t depth;
    bool truncated, broken;
  };

  // Frames kept at most: 64 MiB of them. A stack that is not known by then is lost.
  static constexpr size_t kMaxFrames = size_t{8} << 20;

  // Adds to the sample's row. What finds no memory is counted.
  void add(const CpuSample& sample);

  size_t size() const { return rows_.size(); }
  const Row& operator[](size_t i) const { return rows_[i]; }
  const uintptr_t* frames(const Row& row) const { return frames_.data() + row.first; }
  uint64_t lost() const { return lost_; }
  uint64_t lost_ticks() const { return lost_ticks_; }

 private:
  Row* find(const CpuSample& sample);
  bool insert(const CpuSample& sample);
  bool make_room();
  size_t slot_of(uint64_t hash) const { return hash & (slots_.size() - 1); }

  GrowArray<Row> rows_;
  GrowArray<uintptr_t> frames_;
  GrowArray<uint32_t> slots_;  // a power of two; index of a row plus 1, 0: free
  uint64_t lost_ = 0, lost_ticks_ = 0;
};

// What is known of a profile beside its stacks.
struct CpuProfileFacts {
  os::ThreadClock clock;
  uint64_t period_ns;
  uint64_t duration_ns;
  uint64_t interrupts;
  uint64_t evictions;
  uint64_t lost, lost_ticks;  // in the store
  uint64_t process_cpu_ns;    // what the process used meanwhile, by the kernel's account
  uint64_t threads;           // that had a timer at some time
  uint64_t without_timer;     // that were refused one
  const char* ended;          // why it ended before it was asked to; null: it did not
};

// False when memory was refused.
bool write_cpu_profile(const CpuSums& sums, const CpuProfileFacts& facts, Buffer* out);

}  // namespace seemalloc::profile
