#include "core/profile/sampling/peak.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc::profile {
namespace {

// A set of tables of its own. Blocks of bucket i have 16 << i % 8 bytes.
struct Books {
  BucketTable buckets;
  StackTable stacks;
  PeakTracker peak;

  Bucket* bucket(uintptr_t i) {
    Stack stack;
    stack.depth = 1;
    stack.pcs[0] = 0x1000 + i;
    size_t bytes = size_t{16} << i % 8;
    return buckets.intern(stack, BucketKey{bytes, bytes, 1}, stacks);
  }
  void alloc(Bucket& bucket, int64_t* pending) {
    peak.save_count(bucket);
    bucket.count_alloc(0, false, 1);
    peak.add(bucket.weighted_bytes, pending);
  }
  void free(Bucket& bucket, int64_t* pending) {
    peak.save_count(bucket);
    bucket.count_free(FreedBy::kSameThread, 5, 64);
    peak.add(-bucket.weighted_bytes, pending);
  }
  int64_t captured_bytes() const {
    int64_t bytes = 0;
    buckets.for_each([&](const Bucket& bucket) {
      bytes += bucket.weighted_bytes * static_cast<int64_t>(peak.samples_at(bucket, peak.epoch()));
    });
    return bytes;
  }
};

// Allocates and frees at random, in phases with mostly allocations or mostly frees.
void run_against_model(bool gather) {
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  static Books books_of[2];
  Books& books = books_of[gather];
  constexpr size_t kBuckets = 300;
  Bucket* buckets[kBuckets];
  for (size_t i = 0; i < kBuckets; i++) buckets[i] = books.bucket(i);
  uint64_t live[kBuckets] = {}, at_top[kBuckets] = {};
  int64_t in_use = 0, top = 0, pending = 0;
  int64_t* where = gather ? &pending : nullptr;
  unsigned allocs_of_100 = 60;
  for (int step = 0; step < 200000; step++) {
    if (step % 5000 == 0) allocs_of_100 = 35 + random() % 35;
    size_t i = random() % kBuckets;
    if (random() % 100 < allocs_of_100) {
      books.alloc(*buckets[i], where);
      live[i]++;
      in_use += buckets[i]->weighted_bytes;
    } else if (live[i] != 0) {
      books.free(*buckets[i], where);
      live[i]--;
      in_use -= buckets[i]->weighted_bytes;
    }
    if (in_use > top) {
      top = in_use;
      std::copy(live, live + kBuckets, at_top);
    }
    if (step % 1000 != 0) continue;
    if (gather) {
      ASSERT_LE(std::abs(top - books.captured_bytes()), books.peak.batch_bytes())
          << "step " << step;
      ASSERT_EQ(books.captured_bytes(), books.peak.bytes());
    } else {
      ASSERT_EQ(books.peak.bytes(), top);
      for (size_t b = 0; b < kBuckets; b++) {
        ASSERT_EQ(books.peak.samples_at(*buckets[b], books.peak.epoch()), at_top[b])
            << "step " << step << ", bucket " << b;
      }
    }
  }
}

TEST(PeakTracker, AgreesWithAModel) { run_against_model(false); }
TEST(PeakTracker, IsOffByOneGrainWhereChangesAreGathered) { run_against_model(true); }

// All threads allocate, wait for each other, and free. The peak is the sum over all threads, except
// for the bytes that they have not reported.
TEST(PeakTracker, ThreadsTogether) {
  static Books books;
  constexpr int kThreads = 4, kBlocks = 5000, kBuckets = 100;
  std::vector<std::thread> threads;
  std::barrier top(kThreads);
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed_for_test() + static_cast<unsigned>(t));
      int64_t pending = 0;
      std::vector<Bucket*> mine;
      for (int i = 0; i < kBlocks; i++) {
        mine.push_back(books.bucket(random() % kBuckets));
        books.alloc(*mine.back(), &pending);
      }
      top.arrive_and_wait();
      for (Bucket* bucket : mine) books.free(*bucket, &pending);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t truth = 0;
  books.buckets.for_each([&](const Bucket& bucket) {
    truth += bucket.weighted_bytes * static_cast<int64_t>(bucket.shared_allocs.load());
    EXPECT_EQ(bucket.live_samples(), 0u);
  });
  EXPECT_LE(std::abs(truth - books.peak.bytes()), kThreads * books.peak.batch_bytes());
  // Each thread may have been between two statements when the last mark was reached.
  EXPECT_LE(std::abs(truth - books.captured_bytes()),
            kThreads * (books.peak.batch_bytes() + (16 << 7)));
}

}  // namespace
}  // namespace seemalloc::profile
