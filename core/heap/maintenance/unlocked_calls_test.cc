// System calls that return memory are made without any of our locks held: such a call may take
// milliseconds, and other threads continue in the meantime.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/fault.h"
#include "core/os/runtime/lock.h"

namespace seemalloc::heap {
namespace {

using options::Id;
using options::OptionForTest;

std::atomic<unsigned> calls, with_a_lock;

bool returns_memory(const os::CallRecord& record) {
  switch (record.call) {
    case os::Call::kDontNeed:
    case os::Call::kFree:
    case os::Call::kUnmap:
    case os::Call::kRemap: return record.reason != os::Reason::kGrowth;
    default: return false;
  }
}

class Watched {
 public:
  Watched() {
    calls = with_a_lock = 0;
    os::call_hook = [](const os::CallRecord& record) {
      if (!returns_memory(record)) return;
      calls++;
      // While records are purged one lock counts as held that is not, for the sake of fork
      // (span_pool.cc).
      if (locks_held > (record.reason == os::Reason::kRecords ? 1 : 0)) with_a_lock++;
    };
  }
  ~Watched() {
    os::call_hook = nullptr;
    EXPECT_GT(calls, 0u) << "no memory was returned: the test tests nothing";
    EXPECT_EQ(with_a_lock, 0u) << "of " << calls;
  }
};

std::vector<void*> filled(size_t bytes, size_t total) {
  std::vector<void*> blocks;
  for (size_t sum = 0; sum < total; sum += bytes) {
    blocks.push_back(sm_malloc(bytes));
    memset(blocks.back(), 1, bytes);
  }
  return blocks;
}

void free_all(const std::vector<void*>& blocks, size_t but_each = SIZE_MAX) {
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % but_each != 0 || but_each == SIZE_MAX) sm_free(blocks[i]);
  }
}

void run_ticks() {
  for (int i = 0; i < 40; i++) {
    os::advance_test_clock(kSecondNs / 4);
    os::test_cpu_ns += kSecondNs / 4;  // purges may take a share of the processor's time
    tick();
  }
}

constexpr size_t kSizes[] = {100, 5000, 40 * KiB, 700 * KiB, 5 * MiB};

TEST(UnlockedCalls, ByTime) {
  std::vector<std::vector<void*>> all;
  for (size_t bytes : kSizes) all.push_back(filled(bytes, 40 * MiB));
  for (const auto& blocks : all) free_all(blocks);
  Watched watched;
  run_ticks();
}

TEST(UnlockedCalls, Holes) {
  auto blocks = filled(200, 40 * MiB);
  free_all(blocks, 200);
  {
    Watched watched;
    run_ticks();
  }
  for (size_t i = 0; i < blocks.size(); i += 200) sm_free(blocks[i]);
}

TEST(UnlockedCalls, OnRequest) {
  for (size_t bytes : kSizes) free_all(filled(bytes, 20 * MiB));
  Watched watched;
  sm_malloc_trim(0);
}

TEST(UnlockedCalls, Eager) {
  OptionForTest eager(Id::purge, "eager");
  Watched watched;
  for (size_t bytes : kSizes) free_all(filled(bytes, 20 * MiB));
  tick();
}

TEST(UnlockedCalls, NearALimit) {
  OptionForTest limit(Id::heap_soft_limit, "32M");
  Watched watched;
  for (size_t bytes : kSizes) free_all(filled(bytes, 48 * MiB));
}

TEST(UnlockedCalls, OfThreadsAtRandom) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  Watched watched;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([seed, t] {
      std::mt19937 random(seed + t);
      std::vector<void*> slots(60);
      for (int i = 0; i < 6000; i++) {
        void*& slot = slots[random() % slots.size()];
        size_t bytes = kSizes[random() % std::size(kSizes)] + random() % 1000;
        switch (random() % 4) {
          case 0: slot = sm_realloc(slot, bytes); break;
          case 1: sm_free(slot), slot = sm_calloc(1, bytes); break;
          case 2: sm_free(slot), slot = sm_malloc(bytes); break;
          default: sm_free(slot), slot = nullptr;
        }
        if (slot != nullptr) static_cast<char*>(slot)[0] = 1;
        if (random() % 500 == 0) sm_malloc_trim(0);
        if (random() % 50 == 0) tick();
      }
      free_all(slots);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace seemalloc::heap
