#include "core/profile/unwind/unwind_rule_cache.h"

#include <gtest/gtest.h>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::profile {
namespace {

// The cache is in untouched zeroed memory, as in .bss.
class RuleCacheTest : public testing::Test {
 protected:
  RuleCacheTest()
      : cache_(*static_cast<UnwindRuleCache*>(
            os::map(sizeof(UnwindRuleCache), os::Reason::kRecords))) {}
  ~RuleCacheTest() override { os::unmap(&cache_, sizeof(UnwindRuleCache), os::Reason::kRecords); }

  // Keys similar to code addresses, with a rule each.
  static uint64_t key(uint64_t i) { return 0x7f0000001000 + i * 37; }
  static uint64_t rule(uint64_t i) { return i + 1; }
  void insert(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i < last; i++) cache_.insert(key(i), rule(i));
  }
  size_t found(uint64_t first, uint64_t last) {
    size_t count = 0;
    for (uint64_t i = first; i < last; i++) {
      uint64_t is = cache_.find(key(i));
      EXPECT_TRUE(is == 0 || is == rule(i)) << i;
      count += is == rule(i);
    }
    return count;
  }
  size_t resident_bytes() {
    return os::resident_bytes(&cache_, round_up(sizeof(UnwindRuleCache), os::page_bytes()));
  }

  UnwindRuleCache& cache_;
};

TEST_F(RuleCacheTest, FewRulesTouchFewPages) {
  EXPECT_EQ(found(0, 100), 0u);
  insert(0, 100);
  EXPECT_GE(found(0, 100), 99u);
  EXPECT_LE(resident_bytes(), 2 * os::page_bytes());
}

TEST_F(RuleCacheTest, ManyRulesUseTheWholeCache) {
  insert(0, 5000);
  EXPECT_GE(found(4500, 5000), 450u) << "of the last 500 of room for 4,096";
  EXPECT_GE(resident_bytes(), 15 * os::page_bytes()) << "of 64 KiB";
}

TEST_F(RuleCacheTest, EvictedRuleIsFoundWhenStoredAgain) {
  insert(0, 128);
  insert(128, 200);  // it has grown
  EXPECT_LT(found(0, 128), 128u);
  insert(0, 128);
  EXPECT_GE(found(0, 200), 198u);
}

}  // namespace
}  // namespace seemalloc::profile
