#include "core/profile/heap/thread_rows.h"

#include "core/base/text.h"
#include "core/profile/heap/lifetime_rows.h"
#include "core/profile/heap/live_counts.h"
#include "core/profile/heap/records.h"
#include "core/profile/sampling/sampler.h"

namespace seemalloc::profile {

namespace {

void write_row(ProfileEncoder& encoder, const LiveCount& held, const ThreadTable::Thread& thread,
               uint64_t interval_bytes) {
  const BucketKey& key = held.bucket->key;
  double objects =
      sample_weight(key.sampled_bytes, key.interval_bytes) * static_cast<double>(held.samples);
  int64_t values[] = {rounded(objects),
                      rounded(objects * static_cast<double>(key.allocated_bytes))};
  Label labels[kBucketLabels + kThreadLabels];
  unsigned count = bucket_labels(key, interval_bytes, labels);
  count += thread_labels(thread, labels + count);
  encoder.row(held.bucket->stack->pcs(), held.bucket->stack->depth, values, labels, count);
}

}  // namespace

unsigned thread_labels(const ThreadTable::Thread& thread, Label* labels) {
  labels[0] = {"thread", 0, nullptr, kOtherThreads};
  if (thread.id == 0) return 1;
  labels[0].text = thread.name[0] != 0 ? thread.name : kNamelessThread;
  labels[1] = {"tid", static_cast<int64_t>(thread.id), "count"};
  return 2;
}

bool write_thread_rows(ProfileEncoder& encoder, uint64_t interval_bytes) {
  records.threads.refresh();
  LiveCounts counts;
  // So that each name is written once.
  if (!counts.collect(LiveCounts::Order::kByThread)) return false;
  ThreadTable::Thread thread;
  uint32_t number = 0;
  uint64_t threads = 0, others = 0;
  for (const LiveCount& held : counts) {
    if (held.thread != number) {
      thread = records.threads.get(number = held.thread);
      threads += thread.id != 0;
    }
    if (thread.id == 0) others += held.samples;
    write_row(encoder, held, thread, interval_bytes);
  }
  FixedText<256> text;
  text << "threads: " << threads << " have live blocks";
  if (others != 0) {
    text << "; " << others << " samples are of " << kOtherThreads << ": at most "
         << uint64_t{ThreadTable::kMaxThreads} << " threads with live blocks are distinguished";
  }
  encoder.comment(text);
  return true;
}

}  // namespace seemalloc::profile
