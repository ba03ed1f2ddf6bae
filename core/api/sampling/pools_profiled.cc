// Memory pools reported by programs: selects the blocks to be sampled. A block that is not sampled
// costs a few instructions of the caller's thread.
#include <seemalloc/seemalloc.h>

#include "core/api/sampling/sample_backoff.h"
#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_heap.h"
#include "core/profile/heap/pool_profile.h"
#include "core/profile/sampling/sample_rate_limiter.h"
#include "core/profile/sampling/sampler.h"
#include "core/profile/unwind/unwind.h"

// In a statically linked program readers recognise the allocator's own functions by this name, and
// remove them from the stacks.
namespace seemalloc {
namespace {

// One thread's next sample point, for all pools together. All zero at first: stale.
struct Distance {
  int64_t left;             // bytes until the next sample point
  uint64_t interval_bytes;  // the mean that it was drawn with
  uint64_t changes;         // heap::sample_changes when it was drawn
  profile::Random random;
  profile::SampleRateLimiter pace;
};
constinit thread_local Distance distance __attribute__((tls_model("initial-exec"))) = {};

// The size of pools is not known here: 512 KiB may become 16 MiB.
constexpr unsigned kMaxBackoffLog2 = 5;

uint64_t changes() { return heap::sample_changes.load(std::memory_order_relaxed); }

// The pool of the public header is the profiler's.
profile::Pool* pool_of(seemalloc_pool_t* pool) { return reinterpret_cast<profile::Pool*>(pool); }
uintptr_t address_of(const void* block) { return reinterpret_cast<uintptr_t>(block); }

void draw(bool sampled) {
  uint64_t base = options::get(options::Id::sample);
  profile::SampleRateLimiter::Limit limit;
  distance.interval_bytes =
      has_sample_rate_limit(base, &limit)
          ? base << next_backoff_log2(distance.pace, limit, sampled, kMaxBackoffLog2)
          : base;
  distance.left = profile::draw_distance_bytes(distance.random, distance.interval_bytes);
}

SEEMALLOC_COLD void alloc_slow(profile::Pool* pool, uintptr_t block, uint64_t bytes) {
  // The option has changed, or time has passed and samples may be closer again.
  if (distance.changes != changes()) {
    distance.changes = changes();
    draw(false);
  }
  // Reported twice: it has been freed in between.
  if (profile::may_be_pool_sample(block)) profile::record_pool_free(pool, block);
  distance.left -= static_cast<int64_t>(bytes);
  if (distance.left > 0) return;
  profile::record_pool_alloc(pool, block, bytes, distance.interval_bytes,
                             profile::chosen_stack_depth());
  draw(true);
}

}  // namespace
}  // namespace seemalloc

using namespace seemalloc;

SEEMALLOC_EXPORT seemalloc_pool_t* seemalloc_pool_create(const char* name) {
  return reinterpret_cast<seemalloc_pool_t*>(profile::create_pool(name != nullptr ? name : ""));
}

SEEMALLOC_EXPORT void seemalloc_pool_alloc(seemalloc_pool_t* pool, const void* block,
                                           size_t bytes) {
  if (pool == nullptr || block == nullptr) return;
  constexpr size_t kMax = size_t{1} << 62;
  if (bytes == 0 || bytes > kMax) bytes = bytes == 0 ? 1 : kMax;
  bool quiet = distance.changes == changes() && !profile::may_be_pool_sample(address_of(block));
  if (SEEMALLOC_LIKELY(quiet && distance.left > static_cast<int64_t>(bytes))) {
    distance.left -= static_cast<int64_t>(bytes);
    return;
  }
  alloc_slow(pool_of(pool), address_of(block), bytes);
}

SEEMALLOC_EXPORT void seemalloc_pool_free(seemalloc_pool_t* pool, const void* block) {
  if (pool == nullptr || SEEMALLOC_LIKELY(!profile::may_be_pool_sample(address_of(block)))) return;
  profile::record_pool_free(pool_of(pool), address_of(block));
}

SEEMALLOC_EXPORT void seemalloc_pool_reset(seemalloc_pool_t* pool) {
  if (pool != nullptr) profile::reset_pool(pool_of(pool));
}

SEEMALLOC_EXPORT void seemalloc_pool_destroy(seemalloc_pool_t* pool) {
  if (pool != nullptr) profile::destroy_pool(pool_of(pool));
}
