// What the option `sample_limit` makes of a sampling interval: of malloc's blocks and of memory pools' alike (docs/decisions/0009).
#pragma once

#include "core/base/options.h"
#include "core/heap/thread_heap.h"
#include "core/profile/sample_pace.h"

namespace seemalloc {

// False: samples at this interval are not limited.
inline bool limits_samples(uint64_t interval_bytes, profile::SamplePace::Limit* limit) {
  uint64_t per_second = options::get(options::Id::sample_limit);
  *limit = profile::SamplePace::limit_for(per_second, interval_bytes);
  return per_second != 0 && interval_bytes > 1;
}

// log2 of how much longer the thread's next interval is than the option `sample` says. `sampled`: a sample has been taken.
inline unsigned next_stretch(profile::SamplePace& pace, uint64_t interval_bytes, bool sampled) {
  profile::SamplePace::Limit limit;
  if (!limits_samples(interval_bytes, &limit)) return 0;
  sampled ? pace.count(limit) : pace.relax(limit);
  unsigned stretch = pace.stretch();
  if (stretch != 0) heap::sample_distances_stretched.store(true, std::memory_order_relaxed);
  return stretch;
}

}  // namespace seemalloc
