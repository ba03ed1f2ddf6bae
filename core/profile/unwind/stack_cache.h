// StackCache: remembers the stacks that one thread has sampled, so that the same stack need not be
// walked again.
//
// If a walk only followed rules from unwind tables, on the thread's own stack, it is determined by
// the registers at its start, the return addresses and frame pointers that it used, and the code at
// these addresses. An entry stores exactly those. If all of them are unchanged, the walk would give
// the same stack.
// Called by record_alloc() with the dependencies that the unwinder noted in a WalkDependencies.
// Threads: one at a time, the owner.
// Invariants: 1. words are checked in the order of the walk, so each pc is known to be on this
// thread's stack, and its module therefore to be loaded, before that module's code is read; 2.
// every word that is not code is between the stack pointer and the end of the thread's own stack,
// and stays mapped; 3. an entry is found only if it is complete: `stack` is set last. A new thread
// must clear() the entries of another.
//
// A cache starts without entries: most threads of a server sample rarely, and may have so little
// memory of their own that a cache would be large beside it. It gets 16 entries once walks
// follow each other quickly. If all allocations are recorded, a thread repeatedly passes more
// places than that; then it gets 256 (docs/decisions/0049). should_enlarge() tells when, and
// enlarge() makes room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/profile/code/modules.h"
#include "core/profile/code/registers.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/stack_table.h"
#include "core/profile/unwind/stack_memory.h"

namespace seemalloc::profile {

class StackCache {
 public:
  struct Word {
    uintptr_t address;
    uintptr_t value;
  };
  // A visited module that may be unloaded.
  struct Visit {
    uintptr_t pc;
    uint64_t identity_hash;
    uint32_t before;  // its module is checked before this word
  };
  static constexpr size_t kMaxWords = 80;
  static constexpr size_t kMaxVisits = 4;
  static constexpr unsigned kBucketBits = 3;

  struct alignas(kCacheLineBytes) Entry {
    const InternedStack* stack;  // null: the entry is empty
    // Of its latest samples, indexed by a hash of the size.
    Bucket* buckets[size_t{1} << kBucketBits];
    uint64_t era;
    uintptr_t pc, sp, fp;
    uintptr_t site;
    uint16_t max_depth;
    uint16_t word_count;
    uint8_t visit_count;
    bool uses_fp;  // the walk started from the frame pointer register
    Word words[kMaxWords];
    Visit visits[kMaxVisits];

    Bucket*& bucket_slot(size_t allocated_bytes) {
      return buckets[(allocated_bytes * 0x9E3779B97F4A7C15) >> (64 - kBucketBits)];
    }
  };

  // Returns the entry of the stack above `registers`; null if it is not known. `site` is any
  // address in a caller. It only distinguishes places that allocate at the same stack pointer.
  Entry* find(const Registers& registers, uintptr_t site, size_t max_depth) {
    if (bits_ == 0) return nullptr;
    Set& set = set_of(registers.sp(), site);
    for (uint8_t i = 0; i < kWays; i++) {
      Entry& entry = set.ways[i];
      if (entry.sp != registers.sp() || entry.site != site || !is_complete(entry)) continue;
      if (entry.pc != registers.pc() || entry.max_depth != max_depth) continue;
      if (entry.uses_fp && entry.fp != registers.fp()) continue;
      if (!is_valid(entry)) continue;
      set.last_found = i;
      return &entry;
    }
    return nullptr;
  }

  // Called before that stack is walked. Returns an entry for it, which the caller completes by
  // setting `stack` and a bucket. Returns null if the cache has no entries.
  Entry* begin_entry(const Registers& registers, uintptr_t site, size_t max_depth);
  void clear() {
    generation_++;
    has_fast_walks_ = false;
    walks_ = 0;
  }

  // Whether so many stacks had to be walked again, and so quickly, that the cache is too small.
  // `all_recorded`: all allocations are recorded.
  bool should_enlarge(bool all_recorded) const {
    return bits_ == 0 ? has_fast_walks_
                      : all_recorded && bits_ == kSmallBits && evictions_ >= kMaxEvictions;
  }
  // Enlarges the cache, which then has no stacks. If memory is refused nothing changes, and
  // should_enlarge() is false for a while.
  void enlarge();

 private:
  static constexpr size_t kWays = 4;
  static constexpr unsigned kSmallBits = 2, kLargeBits = 6;
  static constexpr uint32_t kMaxEvictions = 64;
  // A thousand walks per second take 0.04 % of a processor. Fewer do not justify 24 KiB.
  static constexpr uint32_t kFastWalks = 16;
  static constexpr uint64_t kFastWalksNs = 16 * kMillisecondNs;

  struct Set {
    Entry ways[kWays];
    uint8_t last_found, next;
  };

  Set& set_of(uintptr_t sp, uintptr_t site) {
    uint64_t hash = (sp ^ site << 20) * 0x9E3779B97F4A7C15;
    return sets_[hash >> (64 - bits_)];
  }
  bool is_complete(const Entry& entry) const {
    return entry.stack != nullptr && entry.era == generation_;
  }
  SEEMALLOC_ALWAYS_INLINE static bool is_valid(const Entry& entry) {
    if (entry.visit_count != 0) return is_valid_in_modules(entry);
    return words_match(entry, 0, entry.word_count);
  }
  SEEMALLOC_ALWAYS_INLINE static bool words_match(const Entry& entry, size_t from, size_t to) {
    for (const Word *word = entry.words + from, *end = entry.words + to; word != end; word++) {
      if (StackMemory::load(word->address) != word->value) return false;
    }
    return true;
  }
  static bool is_valid_in_modules(const Entry& entry);
  uint8_t victim_way(Set& set);
  void count_uncached_walk();

  uint64_t generation_ = 0;  // entries of other eras are invalid
  Set* sets_ = nullptr;
  uint64_t counted_ns_ = 0;  // the time when walks_ was a multiple of kFastWalks
  uint32_t walks_ = 0;       // walks while there are no entries
  uint32_t evictions_ = 0;
  uint8_t bits_ = 0;  // log2 of the number of sets; 0: none
  bool has_fast_walks_ = false;
};

// Notes the dependencies of a walk in an entry, while the walk is in progress.
class WalkDependencies {
 public:
  explicit WalkDependencies(StackCache::Entry* entry) : entry_(entry) {}

  // False if the stack cannot be cached.
  bool complete() const { return entry_ != nullptr; }
  void abandon() { entry_ = nullptr; }
  // The next step uses a rule for the code at `pc`.
  void add_code(uintptr_t pc, const Module& module) {
    if (!module.loaded_with_program && complete()) in_module(pc, module);
  }
  // The frame of that step ends at base + a constant; base is the stack pointer or the frame
  // pointer.
  void add_cfa_base(unsigned base, const Registers& registers) {
    if (base == kFp && complete()) {
      from_frame_pointer(registers);
    } else if (base != kSp && base != kFp) {
      abandon();
    }
  }
  // The step has read a return address.
  void read(uintptr_t address, uintptr_t value) {
    if (complete()) note(address, value);
  }
  // The step has found the caller's frame pointer at `address`.
  void set_frame_pointer_slot(uintptr_t address) { frame_pointer_at_ = address; }

 private:
  // Values of frame_pointer_at_ that are not the address of a word: the initial register, and a
  // frame pointer checked already.
  static constexpr uintptr_t kInitial = 0, kChecked = 1;

  void in_module(uintptr_t pc, const Module& module);
  void from_frame_pointer(const Registers& registers);
  void note(uintptr_t address, uintptr_t value);
  void add(uintptr_t address, uintptr_t value);

  StackCache::Entry* entry_;
  uintptr_t frame_pointer_at_ = kInitial;
};

}  // namespace seemalloc::profile
