// A walk sees each region once, whatever regions are unmapped meanwhile.
#include "core/pages/span/region_walk.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {
namespace {

// Takes spans of one region's size, so that the next one needs another region.
std::vector<Span*> take_region() {
  std::vector<Span*> spans;
  for (int i = 0; i < 2; i++) {
    Span* span = allocate_run(0, kMaxRegionRunPages, 1, SpanKind::kLarge);
    if (span == nullptr) break;
    span->set_live(1);
    publish(span);
    spans.push_back(span);
  }
  return spans;
}

void note(void* context, const Region& region) {
  static_cast<std::vector<uintptr_t>*>(context)->push_back(region.base);
}

std::set<uintptr_t> regions_now() {
  std::set<uintptr_t> bases;
  for (const Region* region = shards[0].all; region != nullptr; region = region->next_all)
    bases.insert(region->base);
  return bases;
}

void give(std::vector<std::vector<Span*>>& taken) {
  for (auto& spans : taken) {
    for (Span* span : spans) release(span);
  }
  taken.clear();
}

TEST(RegionWalk, SeesEachRegionOnce) {
  std::vector<std::vector<Span*>> taken;
  for (int i = 0; i < 5; i++) taken.push_back(take_region());
  std::vector<uintptr_t> seen;
  RegionWalk walk;
  while (walk.next(note, &seen)) {
  }
  EXPECT_EQ(std::set<uintptr_t>(seen.begin(), seen.end()), regions_now());
  EXPECT_EQ(seen.size(), regions_now().size());
  EXPECT_EQ(shards[0].cursors, nullptr);
  give(taken);
}

TEST(RegionWalk, SkipsRegionsRemovedMeanwhile) {
  std::vector<std::vector<Span*>> taken;
  for (int i = 0; i < 6; i++) taken.push_back(take_region());
  std::vector<uintptr_t> seen;
  RegionWalk walk, behind;
  ASSERT_TRUE(walk.next(note, &seen));
  std::vector<uintptr_t> others;
  ASSERT_TRUE(behind.next(note, &others));
  ASSERT_TRUE(behind.next(note, &others));
  // All but the region taken last, which is the first on the list: both walks are at regions that
  // are unmapped now.
  std::vector<std::vector<Span*>> rest(taken.begin(), taken.end() - 1);
  taken.erase(taken.begin(), taken.end() - 1);
  give(rest);
  unmap_empty_regions();
  std::set<uintptr_t> left = regions_now();
  ASSERT_LT(left.size(), 6u);
  while (walk.next(note, &seen)) {
  }
  EXPECT_EQ(std::set<uintptr_t>(seen.begin(), seen.end()), left);
  EXPECT_EQ(seen.size(), left.size()) << "a region twice";
  size_t before = others.size();
  while (behind.next(note, &others)) {
  }
  for (size_t i = before; i < others.size(); i++)
    EXPECT_TRUE(left.count(others[i])) << "a region that is gone";
  give(taken);
}

TEST(RegionWalk, OneThatIsGivenUpIsForgotten) {
  std::vector<std::vector<Span*>> taken;
  taken.push_back(take_region());
  std::vector<uintptr_t> seen;
  {
    RegionWalk first, second, third;
    for (RegionWalk* walk : {&first, &second, &third}) ASSERT_TRUE(walk->next(note, &seen));
  }
  EXPECT_EQ(shards[0].cursors, nullptr);
  give(taken);
}

// A walk by a thread that the child does not have: the child may reuse the memory of its cursor for
// anything.
TEST(RegionWalk, IsNotTheForkedChilds) {
  std::vector<std::vector<Span*>> taken;
  for (int i = 0; i < 3; i++) taken.push_back(take_region());
  RegionWalk walk;
  std::vector<uintptr_t> seen;
  ASSERT_TRUE(walk.next(note, &seen));
  lock_for_fork();
  pid_t child = fork();
  unlock_after_fork(child == 0);
  if (child == 0) _exit(shards[0].cursors == nullptr ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(shards[0].cursors, nullptr);
  give(taken);
}

}  // namespace
}  // namespace seemalloc::pages
