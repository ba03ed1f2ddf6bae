// The list of threads as the control socket returns it: complete if there is space, and otherwise
// with a count of the rest. The parts of memory: counted without blocking the program, and accurate
// enough while it runs.
#include "core/api/service/report.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/runtime/lock.h"

namespace seemalloc {
namespace {

std::string threads_json(size_t room) {
  std::string memory(room, 'x');
  Text text(memory.data(), memory.size());
  write_threads_json(text, room);
  EXPECT_FALSE(text.truncated());
  return std::string(text.c_str(), text.size());
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

TEST(Report, ListsEachThreadOrCountsIt) {
  constexpr size_t kThreads = 100;
  std::barrier ready(kThreads + 1), done(kThreads + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      sm_free(sm_malloc(100));
      ready.arrive_and_wait();
      done.arrive_and_wait();
    });
  }
  sm_free(sm_malloc(100));
  ready.arrive_and_wait();
  std::string all = threads_json(threads_json_bytes());
  EXPECT_EQ(count(all, "\"tid\":"), kThreads + 1);
  EXPECT_NE(all.find("],\"left_out\":0}"), std::string::npos) << all;
  std::string few = threads_json(4096);
  size_t listed = count(few, "\"tid\":");
  EXPECT_GT(listed, 10u);
  EXPECT_LT(listed, kThreads);
  EXPECT_NE(few.find("],\"left_out\":" + std::to_string(kThreads + 1 - listed) + "}"),
            std::string::npos)
      << few;
  done.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

unsigned most_held, asked;

TEST(Report, HoldsNoLockWhileItAsksTheKernel) {
  std::vector<void*> blocks;
  for (size_t bytes : {100, 5000, 100'000, 3'000'000, 40'000'000})
    blocks.push_back(sm_malloc(bytes));
  most_held = asked = 0;
  os::fault_hook = [](long number) {
    if (number == SYS_mincore) {
      asked++;
      if (locks_held > most_held) most_held = locks_held;
    }
    return 0L;
  };
  MemoryReport report = memory_report(heap::statistics(), true);
  os::fault_hook = nullptr;
  EXPECT_GE(asked, 3u) << "regions and huge blocks";
  EXPECT_EQ(most_held, 0u);
  EXPECT_GE(report.live_allocated, 43'105'100u);
  for (void* block : blocks) sm_free(block);
}

TEST(Report, IsRightWhileOthersAllocate) {
  constexpr size_t kThreads = 3, kHeld = 2000, kLargest = 60'000, kRounds = 200;
  std::atomic<bool> over{false};
  std::barrier ready(kThreads + 1);
  std::vector<std::thread> threads;
  size_t before = heap::statistics().live_bytes;
  std::vector<void*> steady;
  for (size_t i = 0; i < 20; i++) steady.push_back(sm_malloc(i % 2 == 0 ? 2'000'000 : 50'000));
  size_t least = heap::statistics().live_bytes;
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      std::minstd_rand random(seed_for_test() + static_cast<unsigned>(i));
      std::vector<void*> held(kHeld);
      ready.arrive_and_wait();
      while (!over.load()) {
        void*& block = held[random() % kHeld];
        sm_free(block);
        // Sizes for which spans are created and released.
        block = random() % 4 == 0 ? nullptr : sm_malloc(16 + random() % kLargest);
      }
      for (void* block : held) sm_free(block);
    });
  }
  ready.arrive_and_wait();
  for (size_t i = 0; i < kRounds; i++) {
    heap::Statistics s = heap::statistics();
    EXPECT_GE(s.live_bytes + 2 * MiB, least)
        << "but for one that is on its way from a list to another";
    EXPECT_LE(s.live_bytes, least + kThreads * kHeld * 2 * kLargest);
    MemoryReport report = memory_report(s, true);
    EXPECT_LE(report.live + report.cached + report.fragmentation + report.metadata, report.rss);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  for (void* block : steady) sm_free(block);
  EXPECT_EQ(heap::statistics().live_bytes, before) << "nothing runs: exact";
}

}  // namespace
}  // namespace seemalloc
