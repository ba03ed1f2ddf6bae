// UnwindRuleCache: maps a pc to its rule. One global hash table of fixed size, without locks.
//
// A hit costs about three loads. Threads and signal handlers read and write without
// synchronisation. Each entry is two words stored with relaxed atomics, and the guard word is key ^
// scramble(rule): a pair torn between two writers matches no key.
// Only the first part of the table is used until enough rules have been stored, so a program with
// few stacks touches few pages. After the table has grown, rules stored in the smaller part are not
// found any more and are made again.
// A key is the pc mixed with the identity of its module, so successive modules at one address have
// different keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace seemalloc::profile {

class UnwindRuleCache {
 public:
  // Returns the rule stored under `key`, or 0.
  uint64_t find(uint64_t key) const {
    const Bucket& bucket = buckets_[bucket_of(key, growths_.load(std::memory_order_relaxed))];
    for (const Entry& entry : bucket.entries) {
      uint64_t rule = entry.rule.load(std::memory_order_relaxed);
      if ((entry.guard.load(std::memory_order_relaxed) ^ scramble(rule)) == key) return rule;
    }
    return 0;
  }

  // The newest entry of a bucket is first. The others move back by one; the last is dropped.
  void insert(uint64_t key, uint64_t rule) {
    Bucket& bucket = buckets_[bucket_of(key, growths_after_insert())];
    for (size_t i = kAssociativity - 1; i > 0; i--) {
      copy(bucket.entries[i - 1], bucket.entries[i]);
    }
    bucket.entries[0].rule.store(rule, std::memory_order_relaxed);
    bucket.entries[0].guard.store(key ^ scramble(rule), std::memory_order_relaxed);
  }

  void clear() {
    growths_.store(0, std::memory_order_relaxed);
    inserted_.store(0, std::memory_order_relaxed);
    for (Bucket& bucket : buckets_) {
      for (Entry& entry : bucket.entries) {
        entry.rule.store(0, std::memory_order_relaxed);
        entry.guard.store(0, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr size_t kAssociativity = 4;
  // 256 to 4096 rules in 4 to 64 KiB of .bss.
  static constexpr unsigned kFirstBits = 6, kBitsPerGrowth = 2, kMaxGrowths = 2;

  struct Entry {
    std::atomic<uint64_t> guard{0};
    std::atomic<uint64_t> rule{0};
  };
  struct alignas(64) Bucket {
    Entry entries[kAssociativity];
  };

  static size_t bucket_of(uint64_t key, unsigned growths) {
    return (key * 0x9E3779B97F4A7C15) >> (64 - kFirstBits - kBitsPerGrowth * growths);
  }
  // Grows the table when the number of stored rules reaches half of its capacity. If two threads
  // grow it at the same time, it grows once.
  unsigned growths_after_insert() {
    unsigned growths = growths_.load(std::memory_order_relaxed);
    if (growths == kMaxGrowths) return growths;
    size_t half = kAssociativity << (kFirstBits + kBitsPerGrowth * growths - 1);
    if (inserted_.fetch_add(1, std::memory_order_relaxed) + 1 <= half) return growths;
    if (growths_.compare_exchange_strong(growths, growths + 1, std::memory_order_relaxed)) {
      inserted_.store(0, std::memory_order_relaxed);
      growths++;
    }
    return growths;
  }
  static uint64_t scramble(uint64_t rule) {
    uint64_t mixed = rule * 0xD1342543DE82EF95;
    return mixed ^ (mixed >> 32);
  }
  static void copy(const Entry& from, Entry& to) {
    to.rule.store(from.rule.load(std::memory_order_relaxed), std::memory_order_relaxed);
    to.guard.store(from.guard.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

  std::atomic<unsigned> growths_{0};  // number of times the table has grown
  std::atomic<size_t> inserted_{0};   // rules stored since then
  Bucket buckets_[size_t{1} << (kFirstBits + kBitsPerGrowth * kMaxGrowths)];
};

}  // namespace seemalloc::profile
