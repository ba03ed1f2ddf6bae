// MemoryAccount: the amount of memory behind the heap, and the limits it must stay below.
//
// It counts the bytes of spans in use, of free pages and cached huge memory that are not yet
// purged, and of our own records: the memory that a program can get rid of only by freeing and
// purging. Spans count as a whole, touched or not, holes included: their memory is promised to
// their blocks. Bytes are charged before clean pages are taken or huge memory is mapped, and
// uncharged once pages are purged. Each charge comes with a page fault or a system call, so one
// shared counter is cheap enough; reusing dirty pages costs nothing. Huge memory is counted by its
// own counters (huge.cc); while memory moves into or out of them, a ScopedCharge covers it.
// Threads: any; atomic.
// Invariant: while no thread allocates or frees, bytes() is the sum of the used and dirty pages of
// the regions and of the memory of huge blocks and of the huge cache; `memory_account_test`
// compares them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/units.h"

namespace seemalloc::pages {

// Bytes of our own records, including the page map's entries: 8 bytes per page of this many
// regions.
size_t metadata_bytes(size_t regions);

class alignas(kCacheLineBytes) MemoryAccount {
 public:
  // A process that stays smaller than this never checks for a limit.
  static constexpr size_t kFirstPressureCheckBytes = 4 * MiB;

  // Call before memory is taken. Returns false, and charges nothing, when heap_limit does not allow
  // it.
  bool charge(size_t bytes);
  // For memory that exists already, whatever the limit.
  void add(size_t bytes) { charged_.fetch_add(bytes, std::memory_order_relaxed); }
  void uncharge(size_t bytes) {
    size_t before = charged_.fetch_sub(bytes, std::memory_order_relaxed);
    DCHECK(before >= bytes);
  }
  void set_huge_bytes(size_t bytes) { huge_.store(bytes, std::memory_order_relaxed); }
  // In a forked child: sets the charge to the bytes that the regions' counters give. This drops the
  // charges of the parent's other threads.
  void reset_in_child(size_t bytes);
  // The number of reset_in_child() calls. Charges made before the last one must not be uncharged.
  unsigned reset_count() const { return reset_count_.load(std::memory_order_relaxed); }
  // Whether this many bytes could be charged now.
  bool has_room(size_t bytes) const;

  size_t bytes() const {
    return charged_.load(std::memory_order_relaxed) + huge_.load(std::memory_order_relaxed);
  }
  // Includes our own records. heap_limit and heap_soft_limit are compared with this value.
  size_t total_bytes() const;
  // Whether the heap is so large that a thread must check for memory pressure. Slow paths call this
  // often: its words share one cache line.
  bool pressure_check_is_due() const {
    return bytes() >= next_pressure_check_bytes_.load(std::memory_order_relaxed);
  }
  void set_next_pressure_check(size_t at_bytes) {
    next_pressure_check_bytes_.store(at_bytes, std::memory_order_relaxed);
  }
  // Makes the next check due at `at_bytes` at the latest.
  void lower_next_pressure_check(size_t at_bytes);
  size_t next_pressure_check() const {
    return next_pressure_check_bytes_.load(std::memory_order_relaxed);
  }
  // Number of charges that heap_limit has refused.
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> charged_{0};
  std::atomic<size_t> huge_{0};
  std::atomic<size_t> next_pressure_check_bytes_{kFirstPressureCheckBytes};
  std::atomic<uint64_t> refusals_{0};
  std::atomic<unsigned> reset_count_{0};
};

extern constinit MemoryAccount memory_account SEEMALLOC_HIDDEN;

// ScopedCharge: a temporary charge for memory that the heap's counters do not include yet, or no
// longer include. It lasts as long as the object. Used by one thread.
class ScopedCharge {
 public:
  ScopedCharge() = default;
  ~ScopedCharge() { release(); }
  ScopedCharge(const ScopedCharge&) = delete;
  ScopedCharge& operator=(const ScopedCharge&) = delete;

  // Returns false when heap_limit does not allow it.
  bool charge(size_t bytes) {
    if (!memory_account.charge(bytes)) return false;
    note(bytes);
    return true;
  }
  // Call while the counters still include the memory, so that it is counted without a gap.
  void add(size_t bytes) {
    memory_account.add(bytes);
    note(bytes);
  }
  void release() {
    if (bytes_ != 0 && reset_count_ == memory_account.reset_count())
      memory_account.uncharge(bytes_);
    bytes_ = 0;
  }

 private:
  void note(size_t bytes) {
    if (reset_count_ != memory_account.reset_count()) bytes_ = 0;
    reset_count_ = memory_account.reset_count();
    bytes_ += bytes;
  }

  size_t bytes_ = 0;
  unsigned reset_count_ = memory_account.reset_count();
};

// The smallest known limit: of the cgroup's, heap_limit and heap_soft_limit. SIZE_MAX: none. Set by
// core/heap/maintenance/pressure.h.
extern std::atomic<size_t> smallest_limit SEEMALLOC_HIDDEN;
// The most that one cache may keep for reuse: a fraction of the smallest limit.
inline size_t max_cached_bytes() { return smallest_limit.load(std::memory_order_relaxed) / 16; }

// Memory is short: huge pages are not used.
extern std::atomic<bool> under_memory_pressure SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages
