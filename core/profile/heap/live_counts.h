// Live samples per bucket and allocating thread, counted from the live table when a profile is
// written.
//
// Buckets have no thread in their key: that would multiply their number (decision 0042). Threads:
// each object is used by the one thread that made it; takes no lock. Memory: 24 bytes per existing
// pair, up to 4 times as much while counting.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

struct Bucket;

struct LiveCount {
  const Bucket* bucket;
  uint32_t thread;  // its number; 0: a thread without a number
  uint64_t samples;
};

class LiveCounts {
 public:
  enum class Order { kByThread, kByBucket };
  // Counts the live samples. Returns false if memory was refused.
  bool collect(Order order);
  const LiveCount* begin() const { return pairs_.data(); }
  const LiveCount* end() const { return pairs_.data() + pairs_.size(); }

 private:
  bool add(const Bucket* bucket, uint32_t thread);
  bool grow();
  LiveCount& slot_of(const Bucket* bucket, uint32_t thread);

  // While counting: a hash table whose size is a power of two; a slot with a null bucket is empty.
  GrowArray<LiveCount> pairs_;
  size_t count_ = 0;
};

}  // namespace seemalloc::profile
