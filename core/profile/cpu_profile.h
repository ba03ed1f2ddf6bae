// A CPU profile: stacks of threads with how often each was found, added up from the samples that a CpuStore gives, and written as
// profile.proto (samples/count, cpu/nanoseconds; labels "thread" and "tid", as in thread_rows.h).
//
// Each stack has a row of the other threads (number 0), which keeps the frames for those of single threads: that one is
// empty as long as there is room for more rows.
// Scratch memory of its own, bounded; never malloc. Threads: one at a time, in no signal handler. Zeroed memory is an empty one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/threads.h"
#include "core/profile/buffer.h"
#include "core/profile/cpu_store.h"
#include "core/profile/grow_array.h"
#include "core/profile/moved_code.h"
#include "core/profile/thread_names.h"

namespace seemalloc::profile {

class CpuSums {
 public:
  struct Row {
    uint64_t hash;  // of the stack
    uint64_t interrupts, ticks;
    size_t first;  // of its frames
    uint32_t thread;
    uint32_t depth;
    bool truncated, broken;
  };

  // Frames kept at most: 64 MiB of them. A stack that is not known by then is lost.
  static constexpr size_t kMaxFrames = size_t{8} << 20;

  // Rows of single threads at most: with their slots 22 MiB. What comes then is added to that of the other threads.
  static constexpr size_t kMaxThreadRows = size_t{1} << 18;

  // Adds to the sample's row. What finds no memory is counted.
  void add(const CpuSample& sample);

  // A module is gone whose addresses some may have.
  bool any_in(const MovedCode& code) const;
  void move_code(const MovedCode& moved);

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
  bool make_room(size_t frames);
  size_t slot_of(uint64_t hash, uint32_t thread) const { return mix(hash, thread) & (slots_.size() - 1); }

  GrowArray<Row> rows_;
  GrowArray<uintptr_t> frames_;
  GrowArray<uint32_t> slots_;  // a power of two; index of a row plus 1, 0: free
  size_t stacks_ = 0;
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

// `threads` may be null where nothing was summed up. False when memory was refused.
bool write_cpu_profile(const CpuSums& sums, ThreadNames* threads, const CpuProfileFacts& facts, Buffer* out);

}  // namespace seemalloc::profile
