#include "core/api/stall_watch.h"

#include <gtest/gtest.h>

#include "core/heap/pressure.h"
#include "core/os/os.h"
#include "core/os/socket.h"

namespace seemalloc {
namespace {

// The machine's report is that of strangers, too: it is no substitute for the cgroup's because somebody looks just then.
TEST(StallWatch, AsksAgainSoonWhereSomebodyLooks) {
  StallWatch stalls;
  {
    heap::PressureTurn turn;
    if (!turn.mine) GTEST_SKIP() << "the helper looks";
    char path[400];
    EXPECT_EQ(heap::memory_group_file("memory.pressure", path), heap::GroupFile::kAskAgain);
    stalls.keep_open();
    EXPECT_LT(stalls.wanted().fd, 0) << "which group it is in nobody can say now";
  }
  int machine = os::watch_stalls("/proc/pressure/memory");
  if (machine < 0) GTEST_SKIP() << "this kernel reports nothing";
  os::close_file(machine);
  stalls.keep_open();
  EXPECT_GE(stalls.wanted().fd, 0) << "without waiting for the next try";
  stalls.forget();
}

TEST(PressureTurn, OneLooks) {
  {
    heap::PressureTurn turn;
    if (!turn.mine) GTEST_SKIP() << "the helper looks";
    EXPECT_FALSE(heap::PressureTurn().mine);
    EXPECT_FALSE(heap::PressureTurn().mine) << "who has no turn ends none";
  }
  EXPECT_TRUE(heap::PressureTurn().mine);
}

}  // namespace
}  // namespace seemalloc
