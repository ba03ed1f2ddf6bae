#include "core/os/runtime/report_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "core/api/helper/without_helper_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::os {
namespace {

constexpr size_t kRegion = 2 * MiB;
char* fresh = nullptr;
unsigned taken = 0;

// Stands for the heap's window.
void* regions_of_the_test(size_t bytes, size_t* got) {
  if (bytes > kRegion || taken == 4) return nullptr;
  *got = kRegion;
  return fresh + taken++ * kRegion;
}

bool is_zero(const char* p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (p[i] != 0) return false;
  }
  return true;
}
char* take(size_t bytes) { return static_cast<char*>(map_report(bytes)); }

class ReportMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    fresh = static_cast<char*>(
        mmap(nullptr, 4 * kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    arena_fallback = regions_of_the_test;
  }
  static bool is_of_the_reserve(const char* p) { return p >= fresh && p < fresh + 4 * kRegion; }
};

TEST_F(ReportMemory, IsMappedWhileTheKernelAllowsIt) {
  char* p = take(100 * KiB);
  ASSERT_NE(p, nullptr);
  EXPECT_FALSE(is_of_the_reserve(p));
  memset(p, 1, 100 * KiB);
  p = static_cast<char*>(grow_report(p, 100 * KiB, 10 * MiB));
  ASSERT_NE(p, nullptr);
  EXPECT_FALSE(is_of_the_reserve(p));
  EXPECT_EQ(p[100 * KiB - 1], 1);
  EXPECT_TRUE(is_zero(p + 100 * KiB, 10 * MiB - 100 * KiB));
  unmap_report(p, 10 * MiB);
}

TEST_F(ReportMemory, ComesFromTheReserveWhenMappingsAreUsedUp) {
  char* mapped = take(64 * KiB);
  memset(mapped, 7, 64 * KiB);
  for (int round = 0; round < 20; round++) {
    FailNewMappings refuse;
    char *a = take(100), *b = take(MiB);
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_TRUE(is_of_the_reserve(a) && is_of_the_reserve(b));
    EXPECT_TRUE(is_zero(a, 100) && is_zero(b, MiB)) << "in round " << round;
    memset(a, 1, page_bytes());
    memset(b, 2, MiB);
    char* larger = static_cast<char*>(grow_report(b, MiB, 2 * MiB));
    ASSERT_NE(larger, nullptr);
    EXPECT_EQ(larger[MiB - 1], 2);
    EXPECT_TRUE(is_zero(larger + MiB, MiB));
    memset(larger, 3, 2 * MiB);
    EXPECT_EQ(a[page_bytes() - 1], 1);
    EXPECT_EQ(take(3 * MiB), nullptr) << "longer than a region";
    EXPECT_EQ(grow_report(a, 100, 3 * MiB), nullptr);
    EXPECT_EQ(a[0], 1);
    unmap_report(larger, 2 * MiB);
    unmap_report(a, 100);
  }
  EXPECT_LE(taken, 2u) << "freed regions are used again";
  EXPECT_EQ(resident_bytes(fresh, 2 * kRegion), 0u);
  EXPECT_EQ(mapped[64 * KiB - 1], 7);
  unmap_report(mapped, 64 * KiB);
}

TEST_F(ReportMemory, IsRefusedWhenTheReserveIsUsedUp) {
  FailNewMappings refuse;
  char* all[5];
  for (int i = 0; i < 4; i++) ASSERT_NE(all[i] = take(2 * MiB), nullptr);
  EXPECT_EQ(take(1), nullptr);
  for (int i = 0; i < 4; i++) unmap_report(all[i], 2 * MiB);
  ASSERT_NE(all[4] = take(1), nullptr);
  unmap_report(all[4], 1);
}

}  // namespace
}  // namespace seemalloc::os
