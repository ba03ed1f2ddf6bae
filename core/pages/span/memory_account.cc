#include "core/pages/span/memory_account.h"

#include "core/base/options.h"
#include "core/os/runtime/arena.h"
#include "core/pages/span/region_count.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

size_t metadata_bytes(size_t regions) {
  size_t absent = purged_span_record_bytes();
  return os::arena_used_bytes() - absent + regions * (kPagesPerRegion * sizeof(uint64_t));
}

constinit MemoryAccount memory_account;
constinit std::atomic<size_t> smallest_limit{SIZE_MAX};
constinit std::atomic<bool> under_memory_pressure{false};

namespace {
bool fits(size_t before, size_t bytes, size_t limit) {
  size_t records = metadata_bytes(region_count());
  return bytes <= limit && before <= limit - bytes && records <= limit - bytes - before;
}
}  // namespace

bool MemoryAccount::charge(size_t bytes) {
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

bool MemoryAccount::has_room(size_t bytes) const {
  size_t limit = options::get(options::Id::heap_limit);
  return limit == 0 || fits(this->bytes(), bytes, limit);
}

void MemoryAccount::reset_in_child(size_t bytes) {
  charged_.store(bytes, std::memory_order_relaxed);
  reset_count_.fetch_add(1, std::memory_order_relaxed);
}

void MemoryAccount::lower_next_pressure_check(size_t at_bytes) {
  size_t before = next_pressure_check();
  while (at_bytes < before && !next_pressure_check_bytes_.compare_exchange_weak(
                                  before, at_bytes, std::memory_order_relaxed)) {
  }
}

size_t MemoryAccount::total_bytes() const { return bytes() + metadata_bytes(region_count()); }

}  // namespace seemalloc::pages
