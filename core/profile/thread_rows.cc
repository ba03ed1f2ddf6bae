#include "core/profile/thread_rows.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/profile/grow_array.h"
#include "core/profile/lifetime_rows.h"
#include "core/profile/records.h"
#include "core/profile/sampler.h"

namespace seemalloc::profile {

namespace {

struct Held {
  const Bucket* bucket;
  uint32_t thread;  // 0: one of the other threads

  bool operator==(const Held&) const = default;
};

// Rows of one thread come together: its name is written once.
bool before(const Held& a, const Held& b) { return a.thread != b.thread ? a.thread < b.thread : a.bucket < b.bucket; }

void write_row(ProfileEncoder& encoder, const Held& held, const ThreadNames::Thread& thread, uint64_t samples, uint64_t interval_bytes) {
  const BucketKey& key = held.bucket->key;
  double objects = sample_weight(key.drawn_bytes, key.interval_bytes) * static_cast<double>(samples);
  int64_t values[] = {rounded(objects), rounded(objects * static_cast<double>(key.allocated_bytes))};
  Label labels[kBucketLabels + kThreadLabels];
  unsigned count = bucket_labels(key, interval_bytes, labels);
  count += thread_labels(thread, labels + count);
  encoder.row(held.bucket->stack->pcs(), held.bucket->stack->depth, values, labels, count);
}

}  // namespace

unsigned thread_labels(const ThreadNames::Thread& thread, Label* labels) {
  labels[0] = {"thread", 0, nullptr, kOtherThreads};
  if (thread.id == 0) return 1;
  labels[0].text = thread.name[0] != 0 ? thread.name : kNamelessThread;
  labels[1] = {"tid", static_cast<int64_t>(thread.id), "count"};
  return 2;
}

bool write_thread_rows(ProfileEncoder& encoder, uint64_t interval_bytes) {
  GrowArray<Held> held;
  records.threads.refresh();
  records.live.for_each_alive([&](const LiveSample& sample) {
    held.push({sample.bucket, sample.thread - 1 < ThreadNames::kMost ? sample.thread : 0});
  });
  if (held.failed()) return false;
  std::sort(held.data(), held.data() + held.size(), before);
  ThreadNames::Thread thread;
  uint64_t threads = 0, others = 0;
  for (size_t i = 0; i < held.size();) {
    size_t first = i;
    while (i < held.size() && held[i] == held[first]) i++;
    if (first == 0 || held[first].thread != held[first - 1].thread) {
      thread = held[first].thread != 0 ? records.threads.get(held[first].thread) : ThreadNames::Thread{};
      threads += thread.id != 0;
    }
    if (thread.id == 0) others += i - first;
    write_row(encoder, held[first], thread, i - first, interval_bytes);
  }
  FixedText<256> text;
  text << "threads: " << threads << " have allocated what is in use";
  if (others != 0) {
    text << "; " << others << " samples are of " << kOtherThreads << ": at most " << uint64_t{ThreadNames::kMost}
         << " that hold something are told apart";
  }
  encoder.comment(text);
  return true;
}

}  // namespace seemalloc::profile
