// How the option `sample_limit` lengthens a sampling interval: of malloc's blocks and of memory
// pools alike (docs/decisions/0009).
#pragma once

#include <bit>

#include "core/base/options.h"
#include "core/base/units.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/sample_growth.h"
#include "core/profile/sampling/sample_rate_limiter.h"

namespace seemalloc {

// False: the sample rate at this interval is not limited.
inline bool has_sample_rate_limit(uint64_t interval_bytes,
                                  profile::SampleRateLimiter::Limit* limit) {
  uint64_t per_second = options::get(options::Id::sample_limit);
  *limit = profile::SampleRateLimiter::limit_for(per_second, interval_bytes);
  return per_second != 0 && interval_bytes > 1;
}

// The most that an interval may be backed off, as a log2. `bytes_in_spans`: the heap's size now;
// `most_in_spans`: the size above which it is seen to grow (GrowthWatch::most).
// All live blocks may have been allocated with the backed-off interval. At 512 KiB the standard
// error of the total then stays below 14 MiB: the sum of live bytes times interval is at most 200
// MiB². A heap that has shrunk may grow up to `most_in_spans` before distances are drawn again; for
// these blocks the sum is at most twice as large. Heaps of more than 200 MiB are always sampled at
// the requested interval.
inline unsigned max_backoff_log2(size_t bytes_in_spans, size_t most_in_spans) {
  constexpr size_t kNeverBytes = 400 * MiB;
  size_t bytes = most_in_spans / 2 > bytes_in_spans ? most_in_spans / 2 : bytes_in_spans;
  return static_cast<unsigned>(std::bit_width(kNeverBytes / (bytes | 1) | 1)) - 1;
}

// log2 of the factor by which the thread's next interval is longer than the option `sample`, at
// most `most`. Requires: the sample rate is limited. `sampled`: a sample has been taken.
inline unsigned next_backoff_log2(profile::SampleRateLimiter& pace,
                                  profile::SampleRateLimiter::Limit limit, bool sampled,
                                  unsigned most) {
  sampled ? pace.count_sample(limit) : pace.check_idle(limit);
  pace.cap_backoff(most);
  unsigned log2 = pace.backoff_log2() < most ? pace.backoff_log2() : most;
  std::atomic<bool>& any = heap::sample_distances_backed_off;
  if (log2 != 0 && !any.load(std::memory_order_relaxed)) any.store(true, std::memory_order_relaxed);
  return log2;
}

}  // namespace seemalloc
