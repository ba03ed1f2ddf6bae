#include "core/profile/heap/live_counts.h"

#include <algorithm>

#include "core/profile/heap/records.h"
#include "core/profile/heap/thread_numbers.h"

namespace seemalloc::profile {

namespace {
constexpr size_t kFirstPlaces = 2048;
bool by_thread(const LiveCount& a, const LiveCount& b) {
  return a.thread != b.thread ? a.thread < b.thread : a.bucket < b.bucket;
}
bool by_bucket(const LiveCount& a, const LiveCount& b) {
  return a.bucket != b.bucket ? a.bucket < b.bucket : a.thread < b.thread;
}
}  // namespace

// Requires: there is an empty slot.
LiveCount& LiveCounts::slot_of(const Bucket* bucket, uint32_t thread) {
  size_t mask = pairs_.size() - 1;
  for (size_t i = mix(bucket->hash, thread) & mask;; i = (i + 1) & mask) {
    LiveCount& each = pairs_[i];
    if (each.bucket == nullptr || (each.bucket == bucket && each.thread == thread)) return each;
  }
}

// Moves the entries into a table with twice as many slots.
bool LiveCounts::grow() {
  GrowArray<LiveCount> before;
  before.swap(pairs_);
  size_t places = before.size() == 0 ? kFirstPlaces : 2 * before.size();
  if (!pairs_.reserve(places)) return false;
  pairs_.set_size(places);  // fresh memory is zero
  for (size_t i = 0; i < before.size(); i++) {
    if (before[i].bucket != nullptr) slot_of(before[i].bucket, before[i].thread) = before[i];
  }
  return true;
}

bool LiveCounts::add(const Bucket* bucket, uint32_t thread) {
  if (2 * (count_ + 1) > pairs_.size() && !grow()) return false;
  LiveCount& held = slot_of(bucket, thread);
  if (held.bucket == nullptr) {
    held = {bucket, thread, 0};
    count_++;
  }
  held.samples++;
  return true;
}

bool LiveCounts::collect(Order order) {
  bool all = true;
  records.live.for_each_alive([&](const LiveSample& sample) {
    all = all && add(sample.bucket, is_thread_number(sample.thread) ? sample.thread : 0);
  });
  if (!all) return false;
  size_t end = 0;
  for (size_t i = 0; i < pairs_.size(); i++) {
    if (pairs_[i].bucket != nullptr) pairs_[end++] = pairs_[i];
  }
  pairs_.set_size(end);
  if (end != 0)
    std::sort(pairs_.data(), pairs_.data() + end,
              order == Order::kByThread ? by_thread : by_bucket);
  return true;
}

}  // namespace seemalloc::profile
