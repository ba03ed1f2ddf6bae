// The rules against a model of them, on a simulated clock and simulated bytes: random events and
// settings. SEEMALLOC_SEED repeats a run. Then threads: the number of dumps stays within its
// bounds.
#include "core/api/dumps/dump_rules.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/base/units.h"

namespace seemalloc {
namespace {

// The rules of the header, written without regard to threads.
struct Model {
  struct Threshold {
    uint64_t interval = 0, base = 0;
    bool is_due(uint64_t at) const { return interval != 0 && at >= base + interval; }
  };
  Threshold alloc, in_use, growth, time;
  uint64_t total = 0;

  unsigned on_allocated(uint64_t bytes) {
    if (alloc.interval == 0) return 0;
    total += bytes;
    if (!alloc.is_due(total)) return 0;
    alloc.base = total;
    return dump_bit(DumpReason::kAllocated);
  }
  unsigned on_live_bytes(uint64_t bytes) {
    if (!in_use.is_due(bytes)) return 0;
    in_use.base = bytes;
    return dump_bit(DumpReason::kInUse);
  }
  unsigned on_heap_bytes(uint64_t bytes) {
    if (!growth.is_due(bytes)) return 0;
    growth.base = bytes;
    return dump_bit(DumpReason::kGrowth);
  }
  unsigned on_time(uint64_t now) {
    if (!time.is_due(now)) return 0;
    time.base += time.interval;
    if (time.is_due(now)) time.base = now;
    return dump_bit(DumpReason::kTime);
  }
};

// A simulated program: it allocates, grows and shrinks, sleeps, and changes the intervals.
class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {}
  // False when rules and model differ.
  bool step() {
    switch (random_() % 8) {
      case 0: return set_interval();
      case 1: return sleep();
      case 2:
      case 3: return grow();
      default: return allocate();
    }
  }
  unsigned dumps = 0;

 private:
  uint64_t some(uint64_t most) {
    return random_() % 16 == 0 ? random_() % (16 * most) : random_() % most;
  }
  bool same(unsigned got, unsigned wanted) {
    EXPECT_EQ(got, wanted) << "at " << now_ << " ns, heap " << heap_ << ", allocated "
                           << model_.total;
    if (wanted != 0) dumps++;
    return got == wanted;
  }
  bool allocate() {
    uint64_t bytes = some(MiB);
    return same(rules_.on_allocated(bytes), model_.on_allocated(bytes));
  }
  bool grow() {
    uint64_t by = some(4 * MiB);
    heap_ = random_() % 3 == 0 ? heap_ - (by < heap_ ? by : heap_) : heap_ + by;
    in_use_ = random_() % (heap_ + 1);
    return same(rules_.on_heap_bytes(heap_), model_.on_heap_bytes(heap_)) &&
           same(rules_.on_live_bytes(in_use_), model_.on_live_bytes(in_use_));
  }
  bool sleep() {
    now_ += some(2 * kSecondNs);
    return same(rules_.on_time(now_), model_.on_time(now_));
  }
  bool set_interval() {
    uint64_t interval = random_() % 4 == 0 ? 0 : 1 + some(8 * MiB);
    switch (random_() % 40) {
      case 0:
        rules_.set_alloc_interval(interval);
        model_.alloc = {interval, model_.total};
        break;
      case 1:
        rules_.set_growth_interval(interval, heap_);
        model_.growth = {interval, heap_};
        break;
      case 2:
        rules_.set_inuse_interval(interval, in_use_);
        model_.in_use = {interval, in_use_};
        break;
      case 3:
        rules_.set_time_interval(interval * 1000, now_);
        model_.time = {interval * 1000, now_};
        break;
    }
    bool any = false;
    for (const Model::Threshold& threshold :
         {model_.alloc, model_.in_use, model_.growth, model_.time})
      any |= threshold.interval != 0;
    EXPECT_EQ(rules_.any(), any);
    uint64_t next =
        model_.time.interval != 0 ? model_.time.base + model_.time.interval : UINT64_MAX;
    EXPECT_EQ(rules_.next_time_ns(), next);
    return rules_.any() == any && rules_.next_time_ns() == next;
  }

  std::mt19937 random_;
  DumpRules rules_;
  Model model_;
  uint64_t now_ = kSecondNs, heap_ = 0, in_use_ = 0;
};

TEST(DumpRules, MatchModel) {
  unsigned seed = seed_for_test(), dumps = 0;
  for (unsigned life = 0; life < 200; life++) {
    Life one(seed + life);
    for (int i = 0; i < 5000; i++)
      ASSERT_TRUE(one.step()) << "SEEMALLOC_SEED=" << seed + life << ", step " << i;
    dumps += one.dumps;
  }
  EXPECT_GT(dumps, 1000u) << "a test in which nothing is due proves nothing";
}

TEST(DumpRules, LargestNumbersAreNeverReached) {
  DumpRules rules;
  rules.set_alloc_interval(UINT64_MAX);
  rules.set_inuse_interval(UINT64_MAX, 1000);
  rules.set_growth_interval(UINT64_MAX, 1000);
  rules.set_time_interval(UINT64_MAX, 1000);
  EXPECT_TRUE(rules.any());
  constexpr uint64_t kLarge = UINT64_MAX - 2;
  EXPECT_EQ(rules.on_allocated(kLarge) | rules.on_live_bytes(kLarge) | rules.on_heap_bytes(kLarge) |
                rules.on_time(kLarge),
            0u);
}

TEST(DumpRules, ThreadsTogether) {
  constexpr uint64_t kInterval = 1000, kMax = 100, kSteps = 100000;
  constexpr unsigned kThreads = 4;
  DumpRules rules;
  rules.set_alloc_interval(kInterval);
  rules.set_growth_interval(kInterval, 0);
  std::atomic<uint64_t> total{0}, heap{0}, by_bytes{0}, by_growth{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed_for_test() + t);
      for (uint64_t i = 0; i < kSteps; i++) {
        uint64_t bytes = 1 + random() % kMax;
        total += bytes;
        by_bytes += rules.on_allocated(bytes) != 0;
        by_growth += rules.on_heap_bytes(heap += bytes) != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Between two dumps, at least one interval of bytes has been added, and at most one interval plus
  // the bytes that the threads add at the same time.
  for (uint64_t dumps : {by_bytes.load(), by_growth.load()}) {
    EXPECT_LE(dumps, total / kInterval);
    EXPECT_GE(dumps, total / (kInterval + kThreads * kMax) - 1);
  }
}

}  // namespace
}  // namespace seemalloc
