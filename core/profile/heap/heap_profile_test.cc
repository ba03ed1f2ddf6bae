#include "core/profile/heap/heap_profile.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/os/runtime/arena.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/thread_numbers.h"
#include "core/profile/sampling/sampler.h"

namespace seemalloc::profile {
namespace {

// The records are global: every test uses frames of its own, starting at `base`, and checks only
// those.
Stack make_stack(uintptr_t base, uintptr_t number) {
  Stack stack;
  stack.depth = 4 + number % 20;
  for (uint32_t i = 0; i < stack.depth; i++) stack.pcs[i] = base + (number << 8) + i;
  return stack;
}

// First frame, allocated, drawn, interval.
using Key = std::tuple<uintptr_t, size_t, size_t, uint64_t>;
struct Counts {
  uint64_t alloc = 0, live = 0;
  bool operator==(const Counts&) const = default;
};

std::map<Key, Counts> rows_from(uintptr_t base) {
  std::map<Key, Counts> rows;
  records.buckets.for_each([&](const Bucket& bucket) {
    uintptr_t pc = bucket.stack->depth == 0 ? 0 : bucket.stack->pcs()[0];
    if (pc >> 40 != base >> 40) return;
    BucketRow row = read_bucket(bucket);
    Counts& counts =
        rows[{pc, bucket.key.allocated_bytes, bucket.key.sampled_bytes, bucket.key.interval_bytes}];
    EXPECT_EQ(counts, Counts{}) << "two buckets with one key";
    counts = Counts{row.alloc_samples, row.live_samples};
  });
  return rows;
}

struct Block {
  uintptr_t stack;
  size_t requested, allocated, drawn;
  uint64_t interval;
};

struct Model {
  std::map<SampleId, Block> blocks;
  std::map<Key, Counts> rows;
  SampleTotals before = sample_totals();

  static Key key(uintptr_t base, const Block& block) {
    return {make_stack(base, block.stack).pcs[0], block.allocated, block.drawn, block.interval};
  }

  void check_totals() const {
    SampleTotals now = sample_totals();
    double alloc_objects = 0, alloc_bytes = 0, inuse_objects = 0, inuse_bytes = 0;
    SamplingError error;
    uint64_t samples = 0;
    for (const auto& [key, counts] : rows) {
      double bytes = static_cast<double>(std::get<1>(key));
      double weight = sample_weight(std::get<2>(key), std::get<3>(key));
      samples += counts.alloc;
      alloc_objects += weight * counts.alloc;
      alloc_bytes += weight * counts.alloc * bytes;
      inuse_objects += weight * counts.live;
      inuse_bytes += weight * counts.live * bytes;
      error.add(weight * counts.live, weight, bytes);
    }
    EXPECT_EQ(now.samples - before.samples, samples);
    EXPECT_EQ(now.live_samples - before.live_samples, blocks.size());
    EXPECT_EQ(now.dropped, before.dropped);
    auto close = [](double a, double b) { EXPECT_NEAR(a, b, 1e-9 * std::abs(b) + 1e-6); };
    close(now.alloc_objects, before.alloc_objects + alloc_objects);
    close(now.alloc_bytes, before.alloc_bytes + alloc_bytes);
    close(now.inuse_objects, before.inuse_objects + inuse_objects);
    close(now.inuse_bytes, before.inuse_bytes + inuse_bytes);
    double requested = 0;
    for (const auto& [id, block] : blocks) {
      requested +=
          sample_weight(block.drawn, block.interval) * static_cast<double>(block.requested);
    }
    close(now.inuse_requested_bytes, before.inuse_requested_bytes + requested);
    EXPECT_LE(now.inuse_requested_bytes_stderr, now.inuse_bytes_stderr * (1 + 1e-9));
    EXPECT_EQ(before.live_samples, 0u);
    close(now.inuse_bytes_stderr, std::sqrt(error.variance()));
  }
};

TEST(HeapProfile, AgreesWithAModel) {
  constexpr uintptr_t kBase = uintptr_t{1} << 40;
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Model model;
  constexpr uint64_t kIntervals[] = {1, 1000, 524288, 1 << 20};
  auto random_size = [&] { return size_t{16} << random() % 16; };
  for (int step = 0; step < 60000; step++) {
    unsigned choice = random() % 100;
    if (choice < 50 || model.blocks.empty()) {
      Block block{random() % 200, 0, random_size(), 0, kIntervals[random() % 4]};
      block.requested = block.allocated - random() % (block.allocated / 2);
      block.drawn = block.allocated;
      SampleId id = record_alloc({block.requested, block.allocated, block.interval},
                                 make_stack(kBase, block.stack));
      ASSERT_NE(id, 0u);
      ASSERT_TRUE(model.blocks.emplace(id, block).second) << "id given out twice";
      Counts& counts = model.rows[Model::key(kBase, block)];
      counts.alloc++, counts.live++;
      continue;
    }
    auto at = model.blocks.lower_bound(
        static_cast<SampleId>(random() % (model.blocks.rbegin()->first + 1)));
    Block& block = at->second;
    model.rows[Model::key(kBase, block)].live--;
    if (choice < 85) {
      LiveSample sample = records.live.get(at->first);
      EXPECT_EQ(sample.requested_bytes, block.requested);
      EXPECT_EQ(kernel_thread_id(sample.thread), static_cast<uint32_t>(gettid()));
      record_free(at->first);
      model.blocks.erase(at);
    } else {
      if (choice < 95) block.allocated = random_size();
      block.requested = block.allocated - random() % 16;
      record_resize(at->first, block.requested, block.allocated);
      model.rows[Model::key(kBase, block)].live++;
    }
    if (step % 5000 == 0) model.check_totals();
  }
  model.check_totals();
  EXPECT_EQ(rows_from(kBase), model.rows);
  for (const auto& [id, block] : model.blocks) record_free(id);
  for (const auto& [key, counts] : rows_from(kBase)) EXPECT_EQ(counts.live, 0u);
  SampleTotals end = sample_totals();
  EXPECT_EQ(end.live_samples, model.before.live_samples);
  if (end.live_samples == 0) {
    EXPECT_EQ(end.inuse_bytes, 0.0);  // exactly
    EXPECT_EQ(end.inuse_requested_bytes, 0.0);
  }
}

TEST(HeapProfile, InPlaceResizeKeepsWeightAndAllocatedTotals) {
  SampleTotals before = sample_totals();
  SampleId id = record_alloc({100, 112, 524288}, make_stack(uintptr_t{2} << 40, 1));
  SampleTotals recorded = sample_totals();
  record_resize(id, 100000, 106496);
  SampleTotals resized = sample_totals();
  EXPECT_EQ(resized.samples, recorded.samples);
  EXPECT_DOUBLE_EQ(resized.alloc_bytes, recorded.alloc_bytes);
  EXPECT_NEAR(resized.inuse_objects, recorded.inuse_objects, 1e-6);
  double weight = sample_weight(112, 524288);
  EXPECT_NEAR(resized.inuse_bytes - before.inuse_bytes, weight * 106496, 1e-3);
  record_free(id);
  EXPECT_EQ(sample_totals().live_samples, before.live_samples);
}

// Blocks allocated by each thread are resized and freed by other threads, while totals and profiles
// are taken.
TEST(HeapProfile, ThreadsKeepTheBooksTogether) {
  constexpr uintptr_t kBase = uintptr_t{3} << 40;
  constexpr int kThreads = 8;
  constexpr int kSteps = 20000;
  SampleTotals before = sample_totals();
  std::vector<std::atomic<SampleId>> mailbox(512);
  std::atomic<uint64_t> allocated{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed_for_test() + static_cast<unsigned>(t));
      for (int i = 0; i < kSteps; i++) {
        size_t bytes = size_t{64} << random() % 3;
        Allocation allocation{bytes - 14, bytes, 1 + random() % 2};
        SampleId id = record_alloc(allocation, make_stack(kBase, random() % 300));
        ASSERT_NE(id, 0u);
        allocated.fetch_add(1);
        bytes = size_t{128} << random() % 3;
        if (random() % 4 == 0) record_resize(id, bytes - 28, bytes);
        SampleId other = mailbox[random() % mailbox.size()].exchange(id);
        if (other != 0) record_free(other);
      }
    });
  }
  std::thread reader([&] {
    while (!stop.load()) {
      SampleTotals totals = sample_totals();
      EXPECT_LE(totals.live_samples, totals.samples + kThreads);
      Buffer buffer;
      ASSERT_TRUE(heap_profile_to_buffer(&buffer, 1));
      os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  reader.join();
  EXPECT_EQ(sample_totals().samples - before.samples, allocated.load());
  for (std::atomic<SampleId>& slot : mailbox) {
    if (slot.load() != 0) record_free(slot.load());
  }
  SampleTotals after = sample_totals();
  EXPECT_EQ(after.live_samples, before.live_samples);
  EXPECT_EQ(after.inuse_requested_bytes, before.inuse_requested_bytes);
  EXPECT_EQ(after.dropped, before.dropped);
  uint64_t counted = 0;
  for (const auto& [key, counts] : rows_from(kBase)) {
    EXPECT_EQ(counts.live, 0u);
    counted += counts.alloc;
  }
  EXPECT_EQ(counted, allocated.load());
}

TEST(HeapProfile, DropsAndCountsWhenMemoryIsRefused) {
  constexpr uintptr_t kBase = uintptr_t{4} << 40;
  SampleTotals before = sample_totals();
  std::vector<SampleId> ids{record_alloc({10, 16, 1}, make_stack(kBase, 20000))};
  os::fault_hook = [](long number) -> long { return number == SYS_mmap ? -12 : 0; };
  uint64_t dropped = 0;
  for (uintptr_t i = 0; i < 20000; i++) {
    SampleId id = record_alloc({10, 16, 1}, make_stack(kBase, i));
    if (id == 0) {
      dropped++;
    } else {
      ids.push_back(id);
    }
  }
  EXPECT_GT(dropped, 0u);
  Buffer buffer{};
  EXPECT_FALSE(heap_profile_to_buffer(&buffer, 1));
  EXPECT_EQ(buffer.data, nullptr);
  EXPECT_FALSE(write_heap_profile({[](void*, const void*, size_t) { return true; }, nullptr}, 1));
  // A resize to a new size needs a bucket. If there is no memory for it, the resize is not
  // recorded, and nothing breaks. Memory left over by earlier tests is used up first.
  for (size_t i = 0, buckets = 0; buckets < 100'000 && records.stale_resizes.load() == 0;
       buckets++, i = (i + 1) % ids.size()) {
    record_resize(ids[i], 5000 + buckets, 8192 + buckets);
  }
  os::fault_hook = nullptr;
  SampleTotals after = sample_totals();
  EXPECT_EQ(after.dropped - before.dropped, dropped);
  EXPECT_EQ(after.samples - before.samples, ids.size());
  EXPECT_GT(records.stale_resizes.load(), 0u);
  EXPECT_TRUE(heap_profile_to_buffer(&buffer, 1));
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  for (SampleId id : ids) record_free(id);
  EXPECT_EQ(sample_totals().live_samples, before.live_samples);
}

// The process's address space in OS pages. Allocates nothing.
long mapped_pages() {
  int fd = os::open_file("/proc/self/statm", 0);
  char text[64] = {};
  os::read_some(fd, text, sizeof(text) - 1);
  os::close_file(fd);
  return atol(text);
}

// Each mapping call of a profile is refused once: writing returns false each time, does not crash,
// and leaves nothing mapped.
TEST(HeapProfile, WritingSurvivesEachRefusedCall) {
  static long calls_until_refusal;
  SampleId id = record_alloc({10, 16, 1}, make_stack(uintptr_t{5} << 40, 1));
  int refusals = 0;
  for (long nth = 1;; nth++) {
    calls_until_refusal = nth;
    long before = mapped_pages();
    os::fault_hook = [](long number) -> long {
      bool counted = number == SYS_mmap || number == SYS_mremap;
      return counted && --calls_until_refusal <= 0 ? -12 : 0;
    };
    Buffer buffer;
    bool written = heap_profile_to_buffer(&buffer, 1);
    os::fault_hook = nullptr;
    if (written) os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
    ASSERT_EQ(mapped_pages(), before) << "refusal " << nth;
    if (written) break;
    refusals++;
    ASSERT_LT(refusals, 1000);
  }
  EXPECT_GE(refusals, 4);
  record_free(id);
}

TEST(HeapProfile, ForkedChildCanRecord) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "locks of the sanitizer's own that the other threads hold at a fork stay locked in the child";
#endif
  constexpr uintptr_t kBase = uintptr_t{6} << 40;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      for (uintptr_t i = 0; !stop.load(); i++) {
        record_free(record_alloc({10, 16 + i % 64, 1}, make_stack(kBase, t * 1000 + i % 1000)));
      }
    });
  }
  for (int round = 0; round < 20; round++) {
    lock_for_fork();
    os::arena_lock().lock_for_fork();  // done by the page heap in the library
    pid_t child = fork();
    os::arena_lock().unlock_after_fork();
    unlock_after_fork();
    if (child == 0) {
      bool good = true;
      for (uintptr_t i = 0; i < 2000; i++) {
        SampleId id = record_alloc({10, 48, 1}, make_stack(kBase, 5000 + i));
        good = good && id != 0;
        record_free(id);
      }
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

uint64_t freed_elsewhere(uintptr_t base) {
  uint64_t samples = 0;
  records.buckets.for_each([&](const Bucket& bucket) {
    if (bucket.stack->depth != 0 && bucket.stack->pcs()[0] >> 40 == base >> 40)
      samples += read_bucket(bucket).remote_freed_samples;
  });
  return samples;
}

// Simulates a signal handler that samples while the thread reads its name to get a number.
TEST(HeapProfile, KeepsTheNumberThatASignalHandlerHasGivenIt) {
  static uint32_t in_handler;
  in_handler = 0;
  std::thread([] {
    os::fault_hook = [](long call) -> long {
      if (call != SYS_prctl) return 0;
      os::fault_hook = nullptr;
      in_handler = current_thread_number();
      return 0;
    };
    uint32_t number = current_thread_number();
    os::fault_hook = nullptr;
    EXPECT_NE(in_handler, 0u);
    EXPECT_EQ(number, in_handler);
    EXPECT_EQ(current_thread_number(), in_handler);
    ASSERT_TRUE(records.threads.begin_recycling());
    records.threads.recycle(ThreadTable::SlotSet{});
    EXPECT_EQ(kernel_thread_id(number), static_cast<uint32_t>(os::thread_id()))
        << "recycled while the thread lives";
    EXPECT_EQ(kernel_thread_id(number + 1), 0u) << "the second number stays in use";
  }).join();
}

// The thread that calls fork continues in the child: blocks that it allocated before are its own
// there.
TEST(HeapProfile, ForkedChildFreesItsOwn) {
  constexpr uintptr_t kBase = uintptr_t{7} << 40;
  SampleId own = record_alloc({10, 48, 1}, make_stack(kBase, 1)), others = 0;
  std::thread([&] { others = record_alloc({10, 48, 1}, make_stack(kBase, 2)); }).join();
  lock_for_fork();
  pid_t child = fork();
  unlock_after_fork();
  if (child == 0) {
    record_free(own);
    if (freed_elsewhere(kBase) != 0) _exit(1);
    record_free(others);
    if (freed_elsewhere(kBase) != 1) _exit(2);
    SampleId handed_on = record_alloc({10, 48, 1}, make_stack(kBase, 3));
    std::thread([&] { record_free(handed_on); }).join();
    _exit(freed_elsewhere(kBase) == 2 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Growth and memory pools store their stacks in the same table.
TEST(HeapProfile, CountsTheStacksOfSamples) {
  constexpr uintptr_t kBase = uintptr_t{8} << 40;
  uint64_t before = sample_totals().stacks;
  Stack growth = make_stack(kBase, 1);
  ASSERT_NE(records.stacks.intern(growth, hash_stack(growth)), nullptr);
  EXPECT_EQ(sample_totals().stacks, before);
  for (size_t bytes : {48, 64, 80}) record_free(record_alloc({10, bytes, 1}, make_stack(kBase, 2)));
  EXPECT_EQ(sample_totals().stacks, before + 1) << "three buckets of one stack";
  record_free(record_alloc({10, 48, 1}, growth));
  EXPECT_EQ(sample_totals().stacks, before + 2);
}

// A baseline that is set while a profile's counts are read may be ahead of them.
TEST(HeapProfile, LessThanTheBaselineIsNegative) {
  BucketRow row{};
  row.weight = 2;
  row.alloc_samples = 5, row.baseline_alloc_samples = 8;
  row.live_samples = 1, row.baseline_live_samples = 4;
  EXPECT_EQ(row.alloc_objects_since_baseline(), -6);
  EXPECT_EQ(row.live_objects_since_baseline(), -6);
  EXPECT_EQ(row.objects_differing_from_baseline(), 6);
}

TEST(HeapProfile, BlocksThatDifferFromTheBaseline) {
  BucketRow row{};
  row.weight = 10;
  auto differing = [&](uint64_t baseline_live, uint64_t allocated, uint64_t live) {
    row.baseline_alloc_samples = 100, row.alloc_samples = 100 + allocated;
    row.baseline_live_samples = baseline_live, row.live_samples = live;
    return row.objects_differing_from_baseline();
  };
  EXPECT_EQ(differing(50, 0, 50), 0);
  EXPECT_EQ(differing(50, 7, 57), 70);
  EXPECT_EQ(differing(50, 7, 54), 100) << "7 allocated, 3 freed";
  EXPECT_EQ(differing(5, 1000, 6), 110) << "nearly all were freed in between";
  EXPECT_EQ(differing(50, 0, 40), 100);
  EXPECT_EQ(differing(0, 0, 2), 20) << "resized in place";
}

}  // namespace
}  // namespace seemalloc::profile
