// Backing: how much memory stands behind the heap, and the limits it has to stay below.
//
// Counted are the bytes of spans in use, of free pages and cached huge memory not yet given back, and of our own records: what a
// program cannot get rid of but by freeing and purging. Spans count whole, touched or not, holes included: what is in them is
// promised to their blocks. Where clean pages are taken or huge memory
// is wanted, the bytes are charged first; pages are given back when they have been purged. Each goes with a page fault or
// a system call, so that one shared counter does not matter; dirty pages used again cost nothing. Huge memory is counted by its
// books (huge.cc), and what is on its way into them or out of them by a charge (Hold).
// Threads: any; atomic.
// Invariant: while nobody allocates or frees, bytes() is the used and dirty pages of the regions, and the memory of huge blocks and
// of the huge cache; `backing_test` compares them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"

namespace seemalloc::pages {

// Our own records, and the page map's entries: 8 bytes per page of so many regions.
size_t record_bytes(size_t regions);

class alignas(kCacheLineBytes) Backing {
 public:
  // A process that stays smaller never looks for a limit.
  static constexpr size_t kFirstLook_bytes = 4 * MiB;

  // Before memory is taken. False: heap_limit does not allow it, and nothing is charged.
  bool charge(size_t bytes);
  // For what is there already, whatever the limit.
  void add(size_t bytes) { charged_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(size_t bytes) { charged_.fetch_sub(bytes, std::memory_order_relaxed); }
  void set_huge_bytes(size_t bytes) { huge_.store(bytes, std::memory_order_relaxed); }
  // In a forked child, of what the regions have by their books: charges of threads that are the parent's are gone.
  void restate(size_t bytes);
  // How often that was done: charges of before are not to be given back.
  unsigned restated() const { return restated_.load(std::memory_order_relaxed); }
  // Whether so much could be charged now.
  bool has_room(size_t bytes) const;

  size_t bytes() const { return charged_.load(std::memory_order_relaxed) + huge_.load(std::memory_order_relaxed); }
  // With our own records: what heap_limit and heap_soft_limit are compared with.
  size_t total_bytes() const;
  // Whether so many bytes stand behind the heap that somebody has to look whether memory is short. Asked by slow paths: the
  // words lie in one line.
  bool look_is_due() const { return bytes() >= look_at_bytes_.load(std::memory_order_relaxed); }
  void set_next_look(size_t at_bytes) { look_at_bytes_.store(at_bytes, std::memory_order_relaxed); }
  // Not later than that.
  void lower_next_look(size_t at_bytes);
  size_t next_look() const { return look_at_bytes_.load(std::memory_order_relaxed); }
  // Charges that heap_limit has refused.
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> charged_{0};
  std::atomic<size_t> huge_{0};
  std::atomic<size_t> look_at_bytes_{kFirstLook_bytes};
  std::atomic<uint64_t> refusals_{0};
  std::atomic<unsigned> restated_{0};
};

extern constinit Backing backing SEEMALLOC_HIDDEN;

// Memory that is not in the books yet, or not any more, counted as long as this lives. Of one thread.
class Hold {
 public:
  Hold() = default;
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // False when heap_limit does not allow it.
  bool charge(size_t bytes) {
    if (!backing.charge(bytes)) return false;
    note(bytes);
    return true;
  }
  // While the books still count it: so it is counted all the time.
  void add(size_t bytes) {
    backing.add(bytes);
    note(bytes);
  }
  void release() {
    if (bytes_ != 0 && restated_ == backing.restated()) backing.give_back(bytes_);
    bytes_ = 0;
  }

 private:
  void note(size_t bytes) {
    if (restated_ != backing.restated()) bytes_ = 0;
    restated_ = backing.restated();
    bytes_ += bytes;
  }

  size_t bytes_ = 0;
  unsigned restated_ = backing.restated();
};

// The least of the limits known: the cgroup's, heap_limit, heap_soft_limit. SIZE_MAX: none. Set by core/heap/pressure.h.
extern std::atomic<size_t> least_limit SEEMALLOC_HIDDEN;
// What may be kept for later by one cache: a part of that.
inline size_t reserve_limit() { return least_limit.load(std::memory_order_relaxed) / 16; }

// Memory is short: no huge pages.
extern std::atomic<bool> memory_is_short SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages
