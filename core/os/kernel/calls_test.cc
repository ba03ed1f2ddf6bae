// Each system call for memory is counted once, under its call and reason, with its bytes; refused
// ones too.
#include "core/os/kernel/calls.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::os {
namespace {

constexpr size_t kBytes = 64 * KiB;
constexpr Reason kReason = Reason::kHole;  // used by nothing else here

struct Difference {
  Call call;
  Reason reason;
  CallCount before = call_count(call, reason);

  CallCount now() const {
    CallCount after = call_count(call, reason);
    return {after.calls - before.calls, after.bytes - before.bytes, after.refused - before.refused,
            after.ns - before.ns};
  }
  void expect(uint64_t calls, uint64_t bytes, uint64_t refused) const {
    CallCount d = now();
    EXPECT_EQ(d.calls, calls) << call_name(call);
    EXPECT_EQ(d.bytes, bytes) << call_name(call);
    EXPECT_EQ(d.refused, refused) << call_name(call);
    EXPECT_EQ(d.ns != 0, calls != 0) << call_name(call);
  }
};

TEST(Calls, AreCountedOnceByCallAndReason) {
  Difference mapped{Call::kMap, kReason}, unmapped{Call::kUnmap, kReason},
      purged{Call::kDontNeed, kReason}, remapped{Call::kRemap, kReason},
      residency{Call::kMincore, kReason}, huge{Call::kHugePage, Reason::kHugePages},
      small{Call::kNoHugePage, Reason::kHugePages}, split{Call::kFree, Reason::kHugePages},
      collapsed{Call::kCollapse, Reason::kHugePages}, other{Call::kMap, Reason::kPressure};
  Counters before = counters();
  void* memory = map_aligned(kBytes, page_bytes(), kReason);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(purge(memory, kBytes, kReason));
  EXPECT_TRUE(purge(memory, kBytes / 2, kReason));
  resident_bytes(memory, kBytes, kReason);
  bool no_huge = set_huge_pages(memory, kBytes, false);
  bool huge_on = set_huge_pages(memory, kBytes, true);
  split_huge_page(memory, kBytes);
  bool collapse = collapse_into_huge_pages(memory, kBytes) == 0;
  memory = remap(memory, kBytes, kBytes / 2, nullptr, kReason);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(unmap(memory, kBytes / 2, kReason));
  mapped.expect(1, kBytes, 0);
  purged.expect(2, kBytes + kBytes / 2, 0);
  residency.expect(1, kBytes, 0);
  small.expect(1, no_huge ? kBytes : 0, no_huge ? 0 : 1);  // kernels without huge pages refuse
  huge.expect(1, huge_on ? kBytes : 0, huge_on ? 0 : 1);
  split.expect(1, kBytes, 0);
  collapsed.expect(1, collapse ? kBytes : 0, collapse ? 0 : 1);
  remapped.expect(1, kBytes / 2, 0);
  unmapped.expect(1, kBytes / 2, 0);
  other.expect(0, 0, 0);
  Counters after = counters();
  EXPECT_EQ(after.map_calls - before.map_calls, 1u);
  EXPECT_EQ(after.map_bytes - before.map_bytes, kBytes);
  EXPECT_EQ(after.unmap_bytes - before.unmap_bytes, kBytes)
      << "the remapped half and the unmapped half";
  EXPECT_EQ(after.purge_calls - before.purge_calls, 2u);
  EXPECT_EQ(after.huge_page_calls - before.huge_page_calls, 1u);
}

TEST(Calls, RefusedOnesAreCountedWithoutBytes) {
  void* memory = map(kBytes, kReason);
  ASSERT_NE(memory, nullptr);
  Difference map_difference{Call::kMap, kReason}, purge_difference{Call::kDontNeed, kReason},
      unmap_difference{Call::kUnmap, kReason}, residency{Call::kMincore, kReason};
  uint64_t refused = counters().refused_calls;
  {
    FailCalls refuse(SYS_mmap, ENOMEM, 2);
    for (int i = 0; i < 4; i++) {
      if (void* more = map(kBytes, kReason)) unmap(more, kBytes, kReason);
    }
  }
  {
    FailCalls refuse(SYS_madvise, EINVAL);
    EXPECT_FALSE(purge(memory, kBytes, kReason));
  }
  {
    FailCalls refuse(SYS_munmap, ENOMEM);
    EXPECT_FALSE(unmap(memory, kBytes, kReason));
  }
  {
    FailCalls refuse(SYS_mincore, ENOMEM);
    EXPECT_EQ(resident_bytes(memory, kBytes, kReason), 0u);
  }
  map_difference.expect(4, 2 * kBytes, 2);
  purge_difference.expect(1, 0, 1);
  unmap_difference.expect(3, 2 * kBytes, 1);
  residency.expect(1, 0, 1);
  EXPECT_EQ(counters().refused_calls - refused, 5u);
  EXPECT_TRUE(unmap(memory, kBytes, kReason));
}

TEST(Calls, OfManyThreadsAllCount) {
  constexpr unsigned kThreads = 4, kEach = 500;
  Difference purge_difference{Call::kDontNeed, kReason};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; i++) {
    threads.emplace_back([] {
      void* memory = map(page_bytes(), kReason);
      for (unsigned k = 0; k < kEach; k++) purge(memory, page_bytes(), kReason);
      unmap(memory, page_bytes(), kReason);
    });
  }
  for (std::thread& thread : threads) thread.join();
  purge_difference.expect(kThreads * kEach, kThreads * kEach * page_bytes(), 0);
}

std::vector<CallRecord> shown;

TEST(Calls, AreShownDuringATrace) {
  shown.clear();
  call_hook.store([](const CallRecord& record) { shown.push_back(record); });
  void* memory;
  {
    ScopedCallSizeClass label(7);
    memory = map(kBytes, kReason);
  }
  {
    FailCalls refuse(SYS_madvise, EINVAL);
    purge(memory, kBytes / 4, kReason);
  }
  call_hook.store(nullptr);
  unmap(memory, kBytes, kReason);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0].call, Call::kMap);
  EXPECT_EQ(shown[0].reason, kReason);
  EXPECT_EQ(shown[0].bytes, kBytes);
  EXPECT_EQ(shown[0].size_class, 8);
  EXPECT_FALSE(shown[0].refused);
  EXPECT_LE(shown[0].begin_ns + shown[0].took_ns, shown[1].begin_ns);
  EXPECT_EQ(shown[1].call, Call::kDontNeed);
  EXPECT_EQ(shown[1].bytes, kBytes / 4);
  EXPECT_EQ(shown[1].size_class, 0) << "the label has ended";
  EXPECT_TRUE(shown[1].refused);
}

TEST(Calls, HaveNamesThatDiffer) {
  for (unsigned i = 0; i < kCalls; i++) {
    for (unsigned k = 0; k < i; k++)
      EXPECT_STRNE(call_name(static_cast<Call>(i)), call_name(static_cast<Call>(k)));
  }
  for (unsigned i = 0; i < kReasons; i++) {
    for (unsigned k = 0; k < i; k++)
      EXPECT_STRNE(reason_name(static_cast<Reason>(i)), reason_name(static_cast<Reason>(k)));
  }
}

}  // namespace
}  // namespace seemalloc::os
