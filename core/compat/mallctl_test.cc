// jemalloc's names: what they answer, what they change, and its rules about errors and numbers.
#include "core/compat/mallctl.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/api/dump.h"
#include "core/api/dump_names.h"
#include "core/api/test_api.h"
#include "core/base/options.h"
#include "core/base/units.h"
#include "core/compat/control_settings.h"
#include "core/heap/size_class.h"

namespace seemalloc::compat {
namespace {

template <typename T>
T value(const char* name) {
  T out{};
  size_t bytes = sizeof(out);
  EXPECT_EQ(control(name, &out, &bytes, nullptr, 0), 0) << name;
  EXPECT_EQ(bytes, sizeof(out)) << name;
  return out;
}

template <typename T>
int set(const char* name, T to) {
  return control(name, nullptr, nullptr, &to, sizeof(to));
}

int done(const char* name) { return control(name, nullptr, nullptr, nullptr, 0); }

void new_epoch() { EXPECT_EQ(set<uint64_t>("epoch", 1), 0); }

TEST(Mallctl, FiguresFollowTheHeapFromEpochToEpoch) {
  new_epoch();
  size_t before = value<size_t>("stats.allocated");
  void* block = sm_malloc(8 * MiB);
  memset(block, 1, 8 * MiB);
  EXPECT_EQ(value<size_t>("stats.allocated"), before) << "stands still until the next epoch";
  uint64_t epoch = value<uint64_t>("epoch");
  new_epoch();
  EXPECT_EQ(value<uint64_t>("epoch"), epoch + 1);
  size_t allocated = value<size_t>("stats.allocated"), active = value<size_t>("stats.active");
  EXPECT_GE(allocated, before + 8 * MiB);
  EXPECT_LT(allocated, before + 9 * MiB);
  EXPECT_GE(active, allocated);
  EXPECT_GE(value<size_t>("stats.resident"), size_t{8 * MiB});
  EXPECT_GE(value<size_t>("stats.mapped"), active);
  EXPECT_GT(value<size_t>("stats.metadata"), 0u);
  EXPECT_EQ(value<size_t>("stats.arenas.4096.large.allocated") + value<size_t>("stats.arenas.0.small.allocated"), allocated);
  sm_free(block);
}

TEST(Mallctl, AReadEpochIsTheNewOne) {
  uint64_t wanted = 1, got = 0;
  size_t bytes = sizeof(got);
  uint64_t before = value<uint64_t>("epoch");
  EXPECT_EQ(control("epoch", &got, &bytes, &wanted, sizeof(wanted)), 0);
  EXPECT_EQ(got, before + 1);
}

TEST(Mallctl, ErrorsAreJemallocs) {
  char small = 0;
  size_t bytes = 1, number = 0;
  EXPECT_EQ(control("stats.nothing", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats.allocated.more", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control(nullptr, nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats.allocated", &small, &bytes, nullptr, 0), EINVAL) << "a value of the wrong size";
  EXPECT_EQ(set<size_t>("stats.allocated", 1), EPERM);
  EXPECT_EQ(set<bool>("epoch", true), EINVAL);
  bytes = sizeof(number);
  EXPECT_EQ(control("arena.0.purge", &number, &bytes, nullptr, 0), EPERM);
  EXPECT_EQ(done("arena.7.purge"), EFAULT);
  EXPECT_EQ(done("arena.x.purge"), ENOENT);
  EXPECT_EQ(done("arena..purge"), ENOENT);
  EXPECT_EQ(done("arena.99999999999999999999999.purge"), ENOENT);
  EXPECT_EQ(done("arena.0.destroy"), EFAULT);
}

TEST(Mallctl, AValueOfTheWrongSizeIsCopiedAsFarAsItFits) {
  uint64_t wide[2] = {0, ~uint64_t{0}};
  size_t bytes = sizeof(wide);
  EXPECT_EQ(control("arenas.quantum", wide, &bytes, nullptr, 0), EINVAL);
  EXPECT_EQ(bytes, sizeof(size_t));
  EXPECT_EQ(wide[0], 16u);
  EXPECT_EQ(wide[1], ~uint64_t{0});
}

TEST(Mallctl, NumbersInAMibCanBeExchanged) {
  size_t mib[4] = {}, length = 4, size = 0, bytes = sizeof(size);
  ASSERT_EQ(name_to_mib("arenas.bin.0.size", mib, &length), 0);
  EXPECT_EQ(length, 4u);
  EXPECT_EQ(mib[2], 0u);
  for (size_t i = 0; i < heap::kClassCount; i++) {
    mib[2] = i;
    ASSERT_EQ(control_by_mib(mib, length, &size, &bytes, nullptr, 0), 0);
    EXPECT_EQ(size, heap::kClasses[i].bytes);
  }
  mib[2] = heap::kClassCount;
  EXPECT_EQ(control_by_mib(mib, length, &size, &bytes, nullptr, 0), ENOENT);
  EXPECT_EQ(control_by_mib(mib, 3, &size, &bytes, nullptr, 0), ENOENT);
  mib[0] = 100000;
  EXPECT_EQ(control_by_mib(mib, 4, &size, &bytes, nullptr, 0), ENOENT);
  mib[0] = 0;
  EXPECT_EQ(control_by_mib(mib, 4, &size, &bytes, nullptr, 0), ENOENT);
}

TEST(Mallctl, AMibIsCutToItsRoom) {
  size_t mib[2] = {7, 7}, length = 1;
  ASSERT_EQ(name_to_mib("arena.5.purge", mib, &length), 0);
  EXPECT_EQ(length, 1u);
  EXPECT_NE(mib[0], 7u);
  EXPECT_EQ(mib[1], 7u);
  length = 2;
  EXPECT_EQ(name_to_mib("arena.5.nothing", mib, &length), ENOENT);
}

// Each name of the table is found by itself and by its MIB, and answers something else than a crash.
TEST(Mallctl, EveryNameCanBeAsked) {
  std::set<std::string> seen;
  for (size_t i = 0; i < control_names(); i++) {
    std::string name = control_name(i);
    EXPECT_TRUE(seen.insert(name).second) << name << " is there twice";
    if (name == "prof.dump" || name == "prof.reset") continue;
    while (name.find('#') != std::string::npos) name.replace(name.find('#'), 1, "0");
    size_t mib[8], length = 8;
    ASSERT_EQ(name_to_mib(name.c_str(), mib, &length), 0) << name;
    char out[64];
    size_t bytes = sizeof(out);
    int by_name = control(name.c_str(), out, &bytes, nullptr, 0);
    bytes = sizeof(out);
    EXPECT_EQ(control_by_mib(mib, length, out, &bytes, nullptr, 0), by_name) << name;
    EXPECT_NE(by_name, ENOENT) << name;
  }
}

TEST(Mallctl, DecayIsTheDelay) {
  EXPECT_EQ(value<ssize_t>("arenas.dirty_decay_ms"), 1000);
  EXPECT_EQ(set<ssize_t>("arena.0.dirty_decay_ms", 250), 0);
  EXPECT_EQ(options::get(options::Id::purge_delay), 250u);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", -1), 0);
  EXPECT_EQ(value<ssize_t>("opt.dirty_decay_ms"), -1);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", -2), EFAULT);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", 1000), 0);
  EXPECT_EQ(value<ssize_t>("arena.0.dirty_decay_ms"), 1000);
}

TEST(Mallctl, SamplingIsSwitchedAndKeepsItsInterval) {
  EXPECT_EQ(set<size_t>("prof.reset", 17), 0);
  EXPECT_TRUE(value<bool>("prof.active"));
  EXPECT_EQ(set("prof.active", false), 0);
  EXPECT_EQ(options::get(options::Id::sample), 0u);
  EXPECT_FALSE(value<bool>("opt.prof_active"));
  EXPECT_EQ(value<size_t>("prof.lg_sample"), 17u);
  EXPECT_EQ(set("prof.active", true), 0);
  EXPECT_EQ(options::get(options::Id::sample), size_t{1} << 17);
  EXPECT_EQ(set<size_t>("prof.reset", 64), EINVAL);
  EXPECT_EQ(set<size_t>("prof.reset", 19), 0);
}

// Those that jemalloc's options bring about are named alike: one count for all.
TEST(Mallctl, DumpsWithoutANameTakeTheNextOne) {
  namespace fs = std::filesystem;
  char pattern[] = "/tmp/mallctl_test.XXXXXX";
  std::string folder = mkdtemp(pattern), prefix = folder + "/j";
  ASSERT_EQ(set("prof.prefix", prefix.c_str()), 0);
  ASSERT_TRUE(set_option_to("dump_names", "jemalloc"));
  for (int i = 0; i < 3; i++) {
    FixedText<kDumpPathBytes> path;
    EXPECT_EQ(dump_by_prefix(DumpReason::kAsked, path), 0);
    EXPECT_EQ(done("prof.dump"), 0);
  }
  ASSERT_TRUE(set_option_to("dump_names", "seemalloc"));
  EXPECT_EQ(done("prof.dump"), 0) << "jemalloc's form all the same";
  ASSERT_EQ(set("prof.prefix", ""), 0);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename();
    EXPECT_EQ(name.rfind("j." + std::to_string(getpid()) + ".", 0), 0u) << name;
    EXPECT_NE(name.find(".m"), std::string::npos) << name;
    files++;
  }
  EXPECT_EQ(files, 7u) << "none is written over another";
  fs::remove_all(folder);
}

TEST(Mallctl, GoodSizesAreWhatBlocksTake) {
  for (size_t bytes : {0u, 1u, 8u, 9u, 100u, 1024u, 1025u, 32768u, 32769u, 5000000u}) {
    void* p = sm_malloc(bytes);
    EXPECT_EQ(good_size(bytes, 1), sm_malloc_usable_size(p)) << bytes;
    sm_free(p);
  }
  void* p = sm_memalign(256, 300);
  EXPECT_EQ(good_size(300, 256), sm_malloc_usable_size(p));
  sm_free(p);
  EXPECT_EQ(good_size(SIZE_MAX, 1), 0u);
}

// ---- what a thread has allocated and freed ----

struct ThreadFigures {
  uint64_t allocated, freed;
};
ThreadFigures figures() { return {value<uint64_t>("thread.allocated"), value<uint64_t>("thread.deallocated")}; }

TEST(ThreadFigures, AllocatedIsExact) {
  std::thread([] {
    const uint64_t* counter = value<const uint64_t*>("thread.allocatedp");
    EXPECT_EQ(figures().allocated, 0u) << "a thread begins at nothing, whatever became of its heap before";
    uint64_t wanted = 0;
    std::vector<void*> blocks;
    for (size_t i = 0; i < 200000; i++) {
      size_t bytes = 1 + i * 7919 % 3000;
      if (i % 1000 == 0) bytes = 100000;
      blocks.push_back(sm_malloc(bytes));
      wanted += sm_malloc_usable_size(blocks.back());
      if (i % 3 == 0) {
        sm_free(blocks[blocks.size() / 2]);
        blocks[blocks.size() / 2] = nullptr;
      }
    }
    // A due sample of each class is counted ahead.
    EXPECT_GE(figures().allocated, wanted);
    EXPECT_LE(figures().allocated, wanted + heap::kClassCount * heap::kMaxSmallBytes);
    EXPECT_GE(*counter, figures().allocated);
    EXPECT_LE(*counter, figures().allocated + 4 * MiB);
    for (void* p : blocks) sm_free(p);
  }).join();
}

TEST(ThreadFigures, ALargeBlockIsSeenAtOnce) {
  const uint64_t* counter = value<const uint64_t*>("thread.allocatedp");
  uint64_t before = *counter;
  void* p = sm_malloc(1 * MiB);
  EXPECT_EQ(*counter - before, 1 * MiB);
  sm_free(p);
}

TEST(ThreadFigures, FreedIsAnEstimate) {
  std::thread([] {
    const uint64_t* counter = value<const uint64_t*>("thread.deallocatedp");
    EXPECT_EQ(*counter, 0u);
    constexpr size_t kBlocks = 20000, kBytes = 16 * KiB;  // 312 MiB: 625 samples, of which 4 standard errors are 16 %
    for (size_t i = 0; i < kBlocks; i++) sm_free(sm_malloc(kBytes));
    uint64_t allocated = figures().allocated;
    EXPECT_NEAR(static_cast<double>(*counter), static_cast<double>(allocated), 16.0 * MiB) << "nothing is alive";
    std::vector<void*> kept;
    for (size_t i = 0; i < kBlocks; i++) kept.push_back(sm_malloc(kBytes));
    allocated = figures().allocated;
    EXPECT_NEAR(static_cast<double>(*counter) / (kBlocks * kBytes), 1, 0.2) << "half of it is alive";
    for (void* p : kept) sm_free(p);
  }).join();
}

TEST(ThreadFigures, WhoFreesIsCounted) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < 20000; i++) blocks.push_back(sm_malloc(16 * KiB));
  std::thread([&] {
    for (void* p : blocks) sm_free(p);
    // It has allocated nothing: all it has freed are others' blocks.
    EXPECT_NEAR(static_cast<double>(figures().freed) / (20000 * 16.0 * KiB), 1, 0.2);
  }).join();
}

}  // namespace
}  // namespace seemalloc::compat
