#include "core/pages/span/reserve.h"

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/window.h"

namespace seemalloc::pages {

namespace {
constexpr size_t kFirstChunkBytes = 2 * kRegionBytes;
constexpr size_t kLargestChunkBytes = 32 * kRegionBytes;

Lock lock;
uintptr_t next = 0;
uintptr_t end = 0;
// One region that could not be used; further ones are leaked as untouched address space.
uintptr_t returned = 0;
size_t chunk_bytes = kFirstChunkBytes;

uintptr_t reserve_outside_locked() {
  DCHECK(lock.is_held() && next <= end);
  if (returned != 0) {
    uintptr_t base = returned;
    returned = 0;
    return base;
  }
  if (next == end) {
    // Under an address-space limit, halve the chunk until it is granted.
    void* chunk = nullptr;
    size_t bytes = chunk_bytes;
    for (; bytes >= kRegionBytes; bytes /= 2) {
      chunk = os::map_aligned(bytes, kRegionBytes, os::Reason::kGrowth);
      if (chunk != nullptr) break;
    }
    if (chunk == nullptr) return 0;
    next = reinterpret_cast<uintptr_t>(chunk);
    end = next + bytes;
    if (chunk_bytes < kLargestChunkBytes) chunk_bytes *= 2;
    window.skip_place();
  }
  uintptr_t base = next;
  next += kRegionBytes;
  DCHECK(base % kRegionBytes == 0 && next <= end);
  return base;
}
}  // namespace

uintptr_t reserve_region() {
  LockGuard guard(lock);
  uintptr_t base = window.map_region();
  return base != 0 ? base : reserve_outside_locked();
}

void unmap_region(uintptr_t base) {
  DCHECK(base % kRegionBytes == 0);
  constexpr os::Reason kReason = os::Reason::kPressure;
  if (window.contains(base)) return window.unmap_region(base, kReason);
  page_map.set_foreign(base, kRegionBytes);
  void* start = reinterpret_cast<void*>(base);
  if (!os::unmap(start, kRegionBytes, kReason)) os::purge(start, kRegionBytes, kReason);
}

void unreserve_region(uintptr_t base) {
  DCHECK(base % kRegionBytes == 0);
  if (window.contains(base)) return window.unmap_region(base, os::Reason::kGrowth);
  LockGuard guard(lock);
  if (base + kRegionBytes == next) {
    next = base;
  } else {
    returned = base;
  }
}

size_t unmap_reserve() {
  LockGuard guard(lock);
  size_t bytes = end - next;
  if (bytes == 0 || !os::unmap(reinterpret_cast<void*>(next), bytes, os::Reason::kPressure))
    return 0;
  end = next;
  chunk_bytes = kFirstChunkBytes;
  return bytes;
}

size_t reserve_bytes() {
  LockGuard guard(lock);
  return end - next;
}

void lock_reserve_for_fork() { lock.lock_for_fork(); }
void unlock_reserve_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::pages
