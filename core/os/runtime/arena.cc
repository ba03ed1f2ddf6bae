#include "core/os/runtime/arena.h"

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::os {

void* (*arena_fallback)(size_t bytes, size_t* got) = nullptr;

namespace {
constexpr size_t kChunkBytes = 256 * KiB;

Lock lock;
uintptr_t next = 0;
uintptr_t end = 0;
std::atomic<size_t> mapped_bytes{0};
std::atomic<size_t> used_bytes{0};

uintptr_t bump_locked(size_t bytes, size_t alignment) {
  uintptr_t start = round_up(next, alignment);
  if (start + bytes > end || next == 0) return 0;
  next = start + bytes;
  used_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return start;
}

void use_chunk_locked(void* chunk, size_t bytes) {
  mapped_bytes.fetch_add(bytes, std::memory_order_relaxed);
  next = reinterpret_cast<uintptr_t>(chunk);
  end = next + bytes;
}

// Maps a new chunk. Call when the current one has too little room.
bool map_chunk_locked(size_t least) {
  size_t chunk = least > kChunkBytes ? round_up(least, page_bytes()) : kChunkBytes;
  void* fresh = map(chunk, Reason::kRecords);
  if (fresh == nullptr && chunk == kChunkBytes) {
    // Address space is short: map no more than is needed now.
    chunk = round_up(least, page_bytes());
    fresh = map(chunk, Reason::kRecords);
  }
  if (fresh == nullptr) return false;
  use_chunk_locked(fresh, chunk);
  return true;
}

// Returns 0 when the OS refuses memory.
uintptr_t bump(size_t bytes, size_t alignment) {
  {
    LockGuard guard(lock);
    uintptr_t start = bump_locked(bytes, alignment);
    if (start == 0 && map_chunk_locked(bytes + alignment)) start = bump_locked(bytes, alignment);
    if (start != 0) return start;
  }
  size_t got = 0;
  void* chunk = arena_fallback != nullptr ? arena_fallback(bytes + alignment, &got) : nullptr;
  if (chunk == nullptr) return 0;
  LockGuard guard(lock);
  // Another thread may have mapped a chunk meanwhile. The rest of that chunk is lost, but it is
  // only address space.
  use_chunk_locked(chunk, got);
  return bump_locked(bytes, alignment);
}
}  // namespace

void* arena_allocate(size_t bytes, size_t alignment) {
  if (bytes <= page_bytes()) return arena_allocate_prefaulted(bytes, alignment);
  return reinterpret_cast<void*>(bump(bytes, alignment));
}

void* arena_allocate_prefaulted(size_t bytes, size_t alignment) {
  uintptr_t start = bump(bytes, alignment), limit = start + bytes;
  if (start == 0) return nullptr;
  // Touch only bytes inside the record: other threads may be writing to memory beside it.
  for (uintptr_t at = start; at < limit; at = round_up(at + 1, page_bytes()))
    *reinterpret_cast<volatile char*>(at) = 0;
  return reinterpret_cast<void*>(start);
}

size_t arena_mapped_bytes() { return mapped_bytes.load(std::memory_order_relaxed); }
size_t arena_used_bytes() { return used_bytes.load(std::memory_order_relaxed); }
Lock& arena_lock() { return lock; }

}  // namespace seemalloc::os
