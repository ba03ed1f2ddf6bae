// What is in use of each bucket, by the thread that allocated it: counted from the live table when a profile is written.
//
// Buckets know no threads: counting by both would multiply them (decision 0042). Threads: one per object, of its own making; takes no
// lock. Memory: 24 bytes for each pair that there is, up to 4 times as much while they are counted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/grow_array.h"

namespace seemalloc::profile {

struct Bucket;

struct Held {
  const Bucket* bucket;
  uint32_t thread;  // its number; 0: one of the other threads
  uint64_t samples;
};

class HeldCounts {
 public:
  enum class Order { kByThread, kByBucket };
  // Counts what is alive. False when memory was refused.
  bool take(Order order);
  const Held* begin() const { return pairs_.data(); }
  const Held* end() const { return pairs_.data() + pairs_.size(); }

 private:
  bool add(const Bucket* bucket, uint32_t thread);
  bool grow();
  Held& place_of(const Bucket* bucket, uint32_t thread);

  GrowArray<Held> pairs_;  // while they are counted a table by hash, whose size is a power of two: a place without a bucket is empty
  size_t count_ = 0;
};

}  // namespace seemalloc::profile
