#include "core/os/runtime/report_memory.h"

#include <atomic>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::os {

namespace {

constexpr unsigned kMaxRegions = 16;

struct ReserveRegion {
  uintptr_t start;
  size_t bytes;
  size_t used;      // bytes from the start on that have been handed out
  unsigned pieces;  // in use
};
ReserveRegion regions[kMaxRegions];
std::atomic<unsigned> region_count{0};
std::atomic<bool> is_locked{false};

struct Guard {
  Guard() {
    while (is_locked.exchange(true, std::memory_order_acquire)) pause(50 * kMicrosecondNs);
  }
  ~Guard() { is_locked.store(false, std::memory_order_release); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

// The region of the reserve that contains this piece; null if none does.
ReserveRegion* region_of(const void* piece) {
  uintptr_t at = reinterpret_cast<uintptr_t>(piece);
  for (unsigned i = 0; i < region_count.load(std::memory_order_acquire); i++) {
    if (at - regions[i].start < regions[i].bytes) return &regions[i];
  }
  return nullptr;
}

void* take_from(ReserveRegion& region, size_t bytes) {
  if (region.bytes - region.used < bytes) return nullptr;
  region.pieces++;
  std::atomic_signal_fence(std::memory_order_release);
  uintptr_t at = region.start + region.used;
  region.used += bytes;
  return reinterpret_cast<void*>(at);
}

void* take_from_reserve(size_t bytes) {
  Guard guard;
  for (unsigned i = 0; i < region_count.load(std::memory_order_relaxed); i++) {
    if (void* piece = take_from(regions[i], bytes)) return piece;
  }
  return nullptr;
}

bool add_region(size_t bytes) {
  size_t got = 0;
  if (arena_fallback == nullptr || region_count.load(std::memory_order_relaxed) == kMaxRegions)
    return false;
  void* memory = arena_fallback(bytes, &got);
  if (memory == nullptr) return false;
  Guard guard;
  unsigned count = region_count.load(std::memory_order_relaxed);
  if (count == kMaxRegions) return false;  // the region is lost: other threads have added some
  regions[count] = {reinterpret_cast<uintptr_t>(memory), got, 0, 0};
  region_count.store(count + 1, std::memory_order_release);
  return true;
}

}  // namespace

void* map_report(size_t bytes) {
  bytes = round_up(bytes, page_bytes());
  void* memory = map(bytes, Reason::kReport);
  if (memory == nullptr) memory = take_from_reserve(bytes);
  if (memory == nullptr && add_region(bytes)) memory = take_from_reserve(bytes);
  return memory;
}

void unmap_report(void* memory, size_t bytes) {
  ReserveRegion* region = region_of(memory);
  if (region == nullptr) {
    unmap(memory, bytes, Reason::kReport);
    return;
  }
  Guard guard;
  if (region->pieces == 1) {
    if (!purge(reinterpret_cast<void*>(region->start), region->used, Reason::kReport)) return;
    region->used = 0;
    std::atomic_signal_fence(std::memory_order_release);
  }
  region->pieces--;
}

void* grow_report(void* memory, size_t old_bytes, size_t new_bytes) {
  if (region_of(memory) == nullptr) {
    if (void* in_place = remap(memory, old_bytes, new_bytes, nullptr, Reason::kReport))
      return in_place;
  }
  void* larger = map_report(new_bytes);
  if (larger == nullptr) return nullptr;
  if (region_of(memory) == nullptr && region_of(larger) == nullptr) {
    void* moved = remap(memory, old_bytes, new_bytes, larger, Reason::kReport);
    if (moved == nullptr) unmap(larger, new_bytes, Reason::kReport);
    return moved;
  }
  __builtin_memcpy(larger, memory, old_bytes);
  unmap_report(memory, old_bytes);
  return larger;
}

void reset_report_memory_in_child() { is_locked.store(false, std::memory_order_relaxed); }

}  // namespace seemalloc::os
