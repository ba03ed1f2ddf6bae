#include "core/os/arena.h"

#include <atomic>

#include "core/base/units.h"
#include "core/os/os.h"

namespace seemalloc::os {

namespace {
constexpr size_t kChunkBytes = 256 * KiB;

Lock lock;
uintptr_t next = 0;
uintptr_t end = 0;
std::atomic<size_t> mapped_bytes{0};
std::atomic<size_t> used_bytes{0};

// 0 when the OS refuses.
uintptr_t bump(size_t bytes, size_t alignment) {
  LockGuard guard(lock);
  uintptr_t start = round_up(next, alignment);
  if (start + bytes > end || next == 0) {
    size_t chunk = bytes + alignment > kChunkBytes ? round_up(bytes + alignment, page_bytes()) : kChunkBytes;
    void* fresh = map(chunk, Reason::kRecords);
    if (fresh == nullptr && chunk == kChunkBytes) {
      // Little address space left: ask for no more than is needed now.
      chunk = round_up(bytes + alignment, page_bytes());
      fresh = map(chunk, Reason::kRecords);
    }
    if (fresh == nullptr) return 0;
    mapped_bytes.fetch_add(chunk, std::memory_order_relaxed);
    next = reinterpret_cast<uintptr_t>(fresh);
    end = next + chunk;
    start = round_up(next, alignment);
  }
  next = start + bytes;
  used_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return start;
}
}  // namespace

void* arena_allocate(size_t bytes, size_t alignment) {
  if (bytes <= page_bytes()) return arena_allocate_present(bytes, alignment);
  return reinterpret_cast<void*>(bump(bytes, alignment));
}

void* arena_allocate_present(size_t bytes, size_t alignment) {
  uintptr_t start = bump(bytes, alignment), limit = start + bytes;
  if (start == 0) return nullptr;
  // All in the record itself: another thread may be writing to what is beside it.
  for (uintptr_t at = start; at < limit; at = round_up(at + 1, page_bytes())) *reinterpret_cast<volatile char*>(at) = 0;
  return reinterpret_cast<void*>(start);
}

size_t arena_mapped_bytes() { return mapped_bytes.load(std::memory_order_relaxed); }
size_t arena_used_bytes() { return used_bytes.load(std::memory_order_relaxed); }
Lock& arena_lock() { return lock; }

}  // namespace seemalloc::os
