#include "core/pages/span/backing.h"

#include "core/base/options.h"
#include "core/os/runtime/arena.h"
#include "core/pages/span/region_count.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

size_t record_bytes(size_t regions) {
  size_t absent = absent_span_record_bytes();
  return os::arena_used_bytes() - absent + regions * (kPagesPerRegion * sizeof(uint64_t));
}

constinit Backing backing;
constinit std::atomic<size_t> least_limit{SIZE_MAX};
constinit std::atomic<bool> memory_is_short{false};

namespace {
bool fits(size_t before, size_t bytes, size_t limit) {
  size_t records = record_bytes(region_count());
  return bytes <= limit && before <= limit - bytes && records <= limit - bytes - before;
}
}  // namespace

bool Backing::charge(size_t bytes) {
  if (bytes == 0) return true;
  size_t limit = options::get(options::Id::heap_limit);
  if (SEEMALLOC_LIKELY(limit == 0)) {
    add(bytes);
    return true;
  }
  // Compare and add in one step: concurrent threads must not exceed the limit together.
  size_t before = charged_.load(std::memory_order_relaxed);
  do {
    if (!fits(before + huge_.load(std::memory_order_relaxed), bytes, limit)) {
      refusals_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!charged_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}

bool Backing::has_room(size_t bytes) const {
  size_t limit = options::get(options::Id::heap_limit);
  return limit == 0 || fits(this->bytes(), bytes, limit);
}

void Backing::restate(size_t bytes) {
  charged_.store(bytes, std::memory_order_relaxed);
  restated_.fetch_add(1, std::memory_order_relaxed);
}

void Backing::lower_next_look(size_t at_bytes) {
  size_t before = next_look();
  while (at_bytes < before &&
         !look_at_bytes_.compare_exchange_weak(before, at_bytes, std::memory_order_relaxed)) {
  }
}

size_t Backing::total_bytes() const { return bytes() + record_bytes(region_count()); }

}  // namespace seemalloc::pages
