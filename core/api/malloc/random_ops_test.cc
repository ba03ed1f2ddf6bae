// Random operations of several threads against a model: every block is filled with its own pattern
// when it is allocated and checked when it is resized or freed; threads exchange blocks through
// mailboxes. SEEMALLOC_SEED repeats a run, SEEMALLOC_SECONDS makes it longer.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/reports/verify.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc {
namespace {

double chosen_seconds() {
  const char* text = getenv("SEEMALLOC_SECONDS");
  return text != nullptr ? strtod(text, nullptr) : 3;
}

struct Owned {
  unsigned char* p;
  size_t bytes;
  unsigned char fill;
};

// Where threads leave blocks for others.
struct Mailbox {
  std::mutex mutex;
  std::vector<Owned> blocks;
};
std::array<Mailbox, 4> mailboxes;

class Actor {
 public:
  explicit Actor(unsigned seed) : random_(seed) {}

  void step() {
    verify_structures();
    unsigned action = random_() % 100;
    if (action < 45) {
      allocate();
    } else if (action < 75) {
      free_one();
    } else if (action < 85) {
      resize_one();
    } else if (action < 93) {
      post();
    } else if (action < 99) {
      collect_post();
    } else if (random_() % 200 == 0) {
      sm_malloc_trim(0);
    }
    if (blocks_.size() > 3000) {
      for (int i = 0; i < 1500; i++) free_one();
    }
  }
  void free_all() {
    while (!blocks_.empty()) free_one();
  }

 private:
  // The thread's own structures are checked every few steps, those of others, which may wait for
  // their locks, less often.
  void verify_structures() {
    steps_++;
    heap::ThreadHeap* mine = heap::thread_cache.heap;
    if (mine != nullptr && steps_ % kStepsPerHeap == 0)
      heap::require_sound(heap::verify_heap(*mine));
    if (steps_ % kStepsPerWalk == 0) heap::require_sound(heap::verify_all());
  }

  size_t random_size() {
    switch (random_() % 64) {
      case 0: return 0;
      case 1: return random_() % (4 * MiB);
      case 2: return random_() % 400 == 0 ? random_() % (64 * MiB) : random_() % (2 * MiB);
      case 3:
      case 4:
      case 5: return random_() % (128 * KiB);
      case 6:
      case 7:
      case 8:
      case 9: return random_() % (32 * KiB);
      default: return random_() % 1200;
    }
  }

  // Large blocks are filled in part: at the ends of pages, where errors show.
  static constexpr size_t kWhole = 16 * KiB;
  template <typename F>
  void for_bytes(const Owned& b, size_t bytes, F f) {
    if (bytes <= 2 * kWhole) return f(b.p, bytes);
    f(b.p, kWhole);
    f(b.p + bytes - kWhole, kWhole);
  }
  void fill(const Owned& b) {
    for_bytes(b, b.bytes, [&](unsigned char* p, size_t n) { memset(p, b.fill, n); });
  }
  void expect_filled(const Owned& b, size_t bytes) {
    auto check = [&](unsigned char* p, size_t n) {
      for (size_t i = 0; i < n; i++) {
        if (p[i] != b.fill) {
          ADD_FAILURE() << "byte " << (p + i - b.p) << " of " << b.bytes << " at "
                        << static_cast<void*>(b.p);
          abort();
        }
      }
    };
    if (bytes == b.bytes) return for_bytes(b, bytes, check);
    check(b.p, bytes < kWhole ? bytes : kWhole);
  }

  void keep(void* p, size_t bytes) {
    ASSERT_NE(p, nullptr);
    ASSERT_GE(sm_malloc_usable_size(p), bytes);
    Owned b{static_cast<unsigned char*>(p), bytes, static_cast<unsigned char>(random_())};
    fill(b);
    blocks_.push_back(b);
  }

  void allocate() {
    size_t bytes = random_size();
    switch (random_() % 8) {
      case 0: {
        auto* p = static_cast<unsigned char*>(sm_calloc(1, bytes));
        for (size_t i = 0; i < bytes; i += i < 4096 ? 1 : 509)
          ASSERT_EQ(p[i], 0) << "calloc(" << bytes << ")";
        return keep(p, bytes);
      }
      case 1: {
        size_t alignment = size_t{8} << random_() % (random_() % 16 == 0 ? 19 : 10);
        void* p = nullptr;
        ASSERT_EQ(sm_posix_memalign(&p, alignment, bytes), 0);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
        return keep(p, bytes);
      }
      default: return keep(sm_malloc(bytes), bytes);
    }
  }

  Owned take_one() {
    size_t at = random_() % blocks_.size();
    Owned b = blocks_[at];
    blocks_[at] = blocks_.back();
    blocks_.pop_back();
    return b;
  }

  void free_one() {
    if (blocks_.empty()) return;
    Owned b = take_one();
    expect_filled(b, b.bytes);
    sm_free(b.p);
  }

  void resize_one() {
    if (blocks_.empty()) return;
    Owned b = take_one();
    expect_filled(b, b.bytes);
    size_t bytes = random_() % 2 == 0 ? random_size() : b.bytes + b.bytes / 4 + 1;
    if (bytes == 0) bytes = 1;
    b.p = static_cast<unsigned char*>(sm_realloc(b.p, bytes));
    ASSERT_NE(b.p, nullptr);
    size_t kept = bytes < b.bytes ? bytes : b.bytes;
    expect_filled(b, kept == b.bytes ? (kept < kWhole ? kept : kWhole) : kept);
    b.bytes = bytes;
    fill(b);
    blocks_.push_back(b);
  }

  void post() {
    if (blocks_.empty()) return;
    Mailbox& box = mailboxes[random_() % mailboxes.size()];
    std::lock_guard guard(box.mutex);
    for (int i = 0; i < 8 && !blocks_.empty(); i++) box.blocks.push_back(take_one());
  }

  void collect_post() {
    Mailbox& box = mailboxes[random_() % mailboxes.size()];
    std::lock_guard guard(box.mutex);
    blocks_.insert(blocks_.end(), box.blocks.begin(), box.blocks.end());
    box.blocks.clear();
  }

  static constexpr unsigned kStepsPerHeap = 4, kStepsPerWalk = 1024;
  unsigned steps_ = 0;
  std::mt19937 random_;
  std::vector<Owned> blocks_;
};

struct Count {
  size_t blocks = 0, bytes = 0;
};
void count_block(void* context, void*, size_t bytes) {
  Count& count = *static_cast<Count*>(context);
  count.blocks++;
  count.bytes += bytes;
}

Count live() {
  Count count;
  EXPECT_EQ(seemalloc_for_each_block(count_block, &count), 0)
      << "the heap's records contradict each other";
  return count;
}

void run_threads(unsigned seed, double seconds) {
  Count before = live();
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::thread> threads;
  std::atomic<unsigned> generation{0};
  for (unsigned t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      // Each thread lives for a while and leaves blocks for others.
      while (std::chrono::steady_clock::now() < end) {
        std::thread([&] {
          Actor actor(seed + 7919 * generation.fetch_add(1) + t);
          for (int i = 0; i < 30000 && std::chrono::steady_clock::now() < end; i++) actor.step();
          actor.free_all();
        }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Mailbox& box : mailboxes) {
    for (Owned& b : box.blocks) sm_free(b.p);
    box.blocks.clear();
  }
  Count after = live();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.bytes, before.bytes);
}

TEST(RandomOps, ThreadsThatHandBlocksToEachOther) {
  run_threads(seed_for_test(), chosen_seconds());
}

TEST(RandomOps, AllAllocationsSampled) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  run_threads(seed_for_test(), chosen_seconds() / 3);
  ASSERT_EQ(seemalloc_profile_start(0), 0);
}

TEST(RandomOps, SmallCacheBudgetAndImmediatePurge) {
  ASSERT_EQ(seemalloc_option_set("thread_cache", "64K"), 0);
  ASSERT_EQ(seemalloc_option_set("purge_delay", "0"), 0);
  run_threads(seed_for_test(), chosen_seconds() / 3);
  ASSERT_EQ(seemalloc_option_set("thread_cache", "32M"), 0);
  ASSERT_EQ(seemalloc_option_set("purge_delay", "1000"), 0);
}

// Half-empty spans lose pages all the time, and for_each_live_block finds every block exactly once
// at the end.
TEST(RandomOps, WhileHolesArePurged) {
  uint64_t before = heap::hole_counters().spans;
  std::atomic<bool> done{false};
  std::thread purger([&] {
    while (!done) heap::purge_all_holes();
  });
  run_threads(seed_for_test(), chosen_seconds());
  done = true;
  purger.join();
  EXPECT_GT(heap::hole_counters().spans, before);
}

}  // namespace
}  // namespace seemalloc
