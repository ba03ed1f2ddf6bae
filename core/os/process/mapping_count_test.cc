#include "core/os/process/mapping_count.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace seemalloc::os {
namespace {

TEST(MappingCount, NewMappingsAreCounted) {
  MappingCount before = count_mappings();
  ASSERT_GT(before.count, 10u);
  ASSERT_GT(before.limit, before.count);
  EXPECT_FALSE(before.is_used_up());
  constexpr size_t kMore = 2000;
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* area = static_cast<char*>(
      mmap(nullptr, 2 * kMore * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  for (size_t i = 0; i < kMore; i++)
    ASSERT_EQ(mprotect(area + 2 * i * page, page, PROT_READ), 0) << i;
  MappingCount after = count_mappings();
  EXPECT_NEAR(static_cast<double>(after.count - before.count), 2.0 * kMore, 20.0);
  munmap(area, 2 * kMore * page);
}

TEST(MappingCount, NumbersThatCannotBeReadAreZero) {
  MappingCount none = count_mappings("/nowhere", "/nowhere");
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(none.limit, 0u);
  EXPECT_FALSE(none.is_used_up());
}

TEST(MappingCount, UsedUpMeansNearTheLimit) {
  char maps[] = "/tmp/mapping_count_XXXXXX", limit[] = "/tmp/mapping_count_XXXXXX";
  close(mkstemp(maps));
  close(mkstemp(limit));
  std::ofstream text(maps);
  for (int i = 0; i < 5000; i++) text << "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";
  text.close();
  for (auto [most, used_up] : {std::pair{5000, true}, {5003, true}, {4990, true}, {6000, false}}) {
    std::ofstream(limit) << most << "\n";
    MappingCount count = count_mappings(maps, limit);
    EXPECT_EQ(count.count, 5000u);
    EXPECT_EQ(count.limit, static_cast<uint64_t>(most));
    EXPECT_EQ(count.is_used_up(), used_up) << most;
  }
  unlink(maps);
  unlink(limit);
}

}  // namespace
}  // namespace seemalloc::os
