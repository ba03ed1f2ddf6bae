// Blocks of sampled spans, in several parts: against a model, freed by other threads, and across
// fork.
#include "core/heap/spans/sampled.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/api/sampling/without_samples_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/heap/thread/size_class.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

using pages::page_map;

struct Held {
  unsigned part, size_class;
  uint32_t id;
};

void* take(const Held& wanted) {
  uint32_t* id = nullptr;
  void* p = allocate_sampled(wanted.part, wanted.size_class, 0, &id);
  if (p != nullptr) __atomic_store_n(id, wanted.id, __ATOMIC_RELEASE);
  return p;
}

Held any(std::mt19937& random) {
  return {static_cast<unsigned>(random() % kSampledShards),
          static_cast<unsigned>(random() % kClassCount),
          static_cast<uint32_t>(random() % 1000000 + 1)};
}

std::map<const void*, uint32_t> all_by_visiting() {
  std::map<const void*, uint32_t> seen;
  for_each_sampled_block(
      [](void* to, const SampledBlock& block) {
        (*static_cast<decltype(seen)*>(to))[block.block] = block.id;
      },
      &seen);
  return seen;
}

// While other threads allocate in all parts. This test must be first: no thread has used the parts
// before.
TEST(Sampled, AChildMayAllocateInEachPart) {
  sm_free(sm_malloc(1));  // installs the fork handlers
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < kSampledShards; t++) {
    threads.emplace_back([&, t] {
      while (!done.load()) {
        void* p = take({t, 3, 1});
        bool valid = false;
        free_sampled(page_map.span_of(p), p, &valid);
      }
    });
  }
  for (int i = 0; i < 60 && !HasFailure(); i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (unsigned part = 0; part < kSampledShards; part++) {
        void* p = take({part, 3, 7});
        bool valid = false;
        if (p == nullptr || free_sampled(page_map.span_of(p), p, &valid) != 7 || !valid) _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST(Sampled, MatchesModel) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::map<void*, Held> model;
  for (int i = 0; i < 20000; i++) {
    if (model.size() < 300 || (model.size() < 3000 && random() % 2 == 0)) {
      Held wanted = any(random);
      void* p = take(wanted);
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(model.emplace(p, wanted).second) << "allocated twice";
      EXPECT_EQ(sampled_block_bytes(page_map.span_of(p), p), kClasses[wanted.size_class].bytes);
    } else {
      auto at = std::next(model.begin(), static_cast<long>(random() % model.size()));
      pages::Span* span = page_map.span_of(at->first);
      EXPECT_EQ(sample_id(span, at->first), at->second.id);
      bool valid = false;
      EXPECT_EQ(free_sampled(span, at->first, &valid), at->second.id);
      EXPECT_TRUE(valid);
      model.erase(at);
    }
  }
  std::map<const void*, uint32_t> expected;
  std::map<const pages::Span*, std::set<unsigned>> parts;
  for (const auto& [p, held] : model) {
    expected[p] = held.id;
    parts[page_map.span_of(p)].insert(held.part);
  }
  EXPECT_EQ(all_by_visiting(), expected);
  for (const auto& [span, of] : parts) EXPECT_EQ(of.size(), 1u) << "two parts share a span";
  for (const auto& [p, held] : model) {
    bool valid = false;
    free_sampled(page_map.span_of(p), p, &valid);
    EXPECT_TRUE(valid);
  }
  EXPECT_TRUE(all_by_visiting().empty());
}

// Each thread allocates from a part of its own and frees blocks that any of them has allocated.
TEST(Sampled, ThreadsFreeEachOthersBlocks) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::array<std::atomic<void*>, 64> slots{};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kSampledShards; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (uint32_t i = 0; i < 20000; i++) {
        void* p = take({t, static_cast<unsigned>(random() % 8), i + 1});
        void* old = slots[random() % slots.size()].exchange(p, std::memory_order_acq_rel);
        if (old == nullptr) continue;
        bool valid = false;
        uint32_t id = free_sampled(page_map.span_of(old), old, &valid);
        EXPECT_TRUE(valid && id != 0 && id <= 20000);
      }
    });
  }
  for (int i = 0; i < 20; i++) all_by_visiting();
  for (std::thread& thread : threads) thread.join();
  size_t left = 0;
  for (auto& slot : slots) left += slot.load() != nullptr;
  EXPECT_EQ(all_by_visiting().size(), left);
  for (auto& slot : slots) {
    bool valid = false;
    if (void* p = slot.load()) free_sampled(page_map.span_of(p), p, &valid);
  }
}

}  // namespace
}  // namespace seemalloc::heap
