#include "core/profile/cpu/cpu_profile.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc::profile {
namespace {

CpuSample sample_of(uintptr_t first, uint32_t depth, uint64_t interrupts, uint64_t ticks,
                    uint32_t thread = 0) {
  Stack stack;
  stack.depth = depth;
  for (uint32_t i = 0; i < depth; i++) stack.pcs[i] = first + i;
  CpuSample sample;
  sample.begin(hash_stack(stack), stack, thread);
  sample.interrupts = interrupts;
  sample.ticks = ticks;
  return sample;
}

CpuProfileStats facts() {
  return {.clock = os::ThreadClock::kCpu,
          .period_ns = 10 * kMillisecondNs,
          .duration_ns = 5 * kSecondNs,
          .interrupts = 12,
          .evictions = 2,
          .lost = 1,
          .lost_ticks = 3,
          .process_cpu_ns = 120 * kMillisecondNs,
          .threads = 4,
          .threads_without_timer = 1,
          .end_reason = nullptr};
}

std::string written(const CpuProfile& sums, const CpuProfileStats& about,
                    ThreadTable* threads = nullptr) {
  Buffer buffer;
  if (!write_cpu_profile(sums, threads, about, &buffer)) return "";
  std::string bytes(buffer.data, buffer.bytes);
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  return bytes;
}

// A stack with the addresses that another stack had before is a different one: there is other code
// now.
TEST(CpuProfile, StacksOfAnUnloadedModuleAreMoved) {
  CpuProfile sums;
  for (int i = 0; i < 3; i++) sums.add(sample_of(0x1001, 4, 1, 2));
  sums.add(sample_of(0x5001, 2, 1, 1));
  sums.relocate_code({0x1000, 0x1002, kUnloadedCode});
  for (int i = 0; i < 2; i++) sums.add(sample_of(0x1001, 4, 1, 2));
  std::map<std::vector<uintptr_t>, uint64_t> ticks;
  for (size_t i = 0; i < sums.size(); i++) {
    if (sums[i].ticks != 0)
      ticks[{sums.frames(sums[i]), sums.frames(sums[i]) + sums[i].depth}] += sums[i].ticks;
  }
  EXPECT_EQ(ticks, (std::map<std::vector<uintptr_t>, uint64_t>{
                       {{kUnloadedCode + 1, kUnloadedCode + 2, 0x1003, 0x1004}, 6},
                       {{0x1001, 0x1002, 0x1003, 0x1004}, 4},
                       {{0x5001, 0x5002}, 1}}));
}

TEST(CpuProfile, AddsUpByStack) {
  CpuProfile sums;
  for (uintptr_t round = 0; round < 3; round++) {
    for (uintptr_t i = 0; i < 20000; i++)
      sums.add(sample_of(0x1000 + i * 1000, static_cast<uint32_t>(i % 20), 1, 2));
  }
  std::map<uintptr_t, uint64_t> ticks;
  uint64_t without_frames = 0;
  for (size_t i = 0; i < sums.size(); i++) {
    const CpuProfile::Row& row = sums[i];
    if (row.depth == 0) without_frames += row.ticks;
    for (uint32_t f = 1; f < row.depth; f++)
      EXPECT_EQ(sums.frames(row)[f], sums.frames(row)[0] + f);
    if (row.depth != 0) ticks[sums.frames(row)[0]] += row.ticks;
  }
  EXPECT_EQ(sums.size(), 19001u);  // stacks without a frame are one
  EXPECT_EQ(without_frames, 6000u);
  for (const auto& [frame, count] : ticks) EXPECT_EQ(count, 6u);
  EXPECT_EQ(sums.lost(), 0u);
}

TEST(CpuProfile, KeepTheFramesOfAStackOnceForAllThreads) {
  CpuProfile sums;
  for (uint32_t thread = 0; thread < 100; thread++) {
    for (uintptr_t stack = 0; stack < 50; stack++)
      sums.add(sample_of(0x1000 + stack * 1000, 20, 1, 1 + thread, thread));
  }
  EXPECT_EQ(sums.stacks(), 50u);
  ASSERT_EQ(sums.size(), 5000u);
  std::map<size_t, uint64_t> rows, ticks;
  for (size_t i = 0; i < sums.size(); i++) {
    rows[sums[i].first]++;
    ticks[sums[i].thread] += sums[i].ticks;
    for (uint32_t f = 1; f < 20; f++)
      ASSERT_EQ(sums.frames(sums[i])[f], sums.frames(sums[i])[0] + f);
  }
  EXPECT_EQ(rows.size(), 50u) << "places of frames";
  for (const auto& [thread, sum] : ticks) EXPECT_EQ(sum, 50 * (1 + thread));
}

TEST(CpuProfile, ThreadsWithoutASlotAreAddedToTheOthers) {
  CpuProfile sums;
  constexpr uint64_t kMore = 1000;
  uint64_t pairs = 0;
  for (uintptr_t stack = 0; pairs < CpuProfile::kMaxThreadRows + kMore; stack++) {
    for (uint32_t thread = 1; thread <= 2048; thread++, pairs++)
      sums.add(sample_of(0x1000 + stack * 16, 2, 1, 1, thread));
  }
  uint64_t others = 0, all = 0;
  for (size_t i = 0; i < sums.size(); i++) {
    all += sums[i].interrupts;
    if (sums[i].thread == 0) others += sums[i].interrupts;
  }
  EXPECT_EQ(all, pairs);
  EXPECT_EQ(others, pairs - CpuProfile::kMaxThreadRows);
  EXPECT_EQ(sums.size() - sums.stacks(), CpuProfile::kMaxThreadRows);
  EXPECT_EQ(sums.lost(), 0u);
}

TEST(CpuProfile, CountSamplesWithoutMemory) {
  CpuProfile sums;
  sums.add(sample_of(0x1000, 3, 1, 1));
  os::FailCalls refuse(SYS_mremap, 12);
  os::fault_hook = [](long number) -> long {
    return number == SYS_mmap || number == SYS_mremap ? -12 : 0;
  };
  for (uintptr_t i = 1; i < 10000; i++) sums.add(sample_of(0x1000 + i * 1000, 100, 1, 2));
  sums.add(sample_of(0x1000, 3, 4, 4));
  os::fault_hook = nullptr;
  EXPECT_GT(sums.lost(), 9000u);
  EXPECT_EQ(sums.lost_ticks(), 2 * sums.lost());
  EXPECT_EQ(sums.size() + sums.lost(), 10000u);
  EXPECT_EQ(sums[0].interrupts, 5u) << "known stacks are still counted";
}

TEST(CpuProfile, IsAProfileOfTime) {
  CpuProfile sums;
  sums.add(sample_of(0x1001, 2, 3, 4));
  sums.add(sample_of(0x5001, 1, 1, 1));
  std::string bytes = written(sums, facts());
  Profile profile = decode(bytes);
  EXPECT_EQ(profile.types, (std::vector<std::string>{"samples/count", "cpu/nanoseconds"}));
  EXPECT_EQ(profile.period_type, "cpu/nanoseconds");
  EXPECT_EQ(profile.numbers[12], 10 * kMillisecondNs);
  EXPECT_EQ(profile.numbers[10], 5 * kSecondNs);
  EXPECT_EQ(profile.numbers.count(7), 0u) << "the allocator's functions are dropped";
  std::vector<DecodedRow> rows = rows_of(bytes);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].stack, (std::vector<uint64_t>{0x1000, 0x1001}));
  EXPECT_EQ(rows[0].values, (std::vector<int64_t>{3, 40 * static_cast<int64_t>(kMillisecondNs)}));
  EXPECT_EQ(rows[1].values, (std::vector<int64_t>{1, 10 * static_cast<int64_t>(kMillisecondNs)}));
  std::string comments;
  for (const std::string& comment : profile.comments) comments += comment + "\n";
  for (const char* part : {"CPU time", "interrupts 12, evictions 2, lost 1", "used 120000000 ns",
                           "stand for 50000000 ns", "lost ones for 30000000",
                           "0 samples with a broken unwind", "4 had a timer, 1 were refused one"}) {
    EXPECT_NE(comments.find(part), std::string::npos) << part << " is not in\n" << comments;
  }
  EXPECT_EQ(comments.find("ended early"), std::string::npos);
}

TEST(CpuProfile, ReportsWhichThreadRan) {
  static ThreadTable names;
  uint32_t reader = names.add(1234, "reader"), nameless = names.add(1235, "");
  CpuProfile sums;
  sums.add(sample_of(0x1001, 2, 3, 4, reader));
  sums.add(sample_of(0x1001, 2, 2, 2, nameless));
  sums.add(sample_of(0x5001, 1, 1, 1));
  std::string bytes = written(sums, facts(), &names);
  std::map<std::string, std::pair<std::string, int64_t>> found;
  for (const DecodedRow& row : rows_of(bytes)) {
    found[row.labels.at("thread")] = {row.labels.count("tid") != 0 ? row.labels.at("tid") : "",
                                      row.values[0]};
  }
  EXPECT_EQ(
      found,
      (std::map<std::string, std::pair<std::string, int64_t>>{
          {"reader", {"1234", 3}}, {"(no name)", {"1235", 2}}, {"(other threads)", {"", 1}}}));
  EXPECT_EQ(rows_of(bytes).size(), 3u) << "rows without a sample";
  EXPECT_EQ(
      decode(bytes).comments.back(),
      "thread labels: 1 samples are of (other threads): at most 4096 threads, and 262144 pairs of a thread and a stack, are distinguished");
}

TEST(CpuProfile, WallClockProfileIsMarked) {
  CpuProfile sums;
  CpuProfileStats about = facts();
  about.clock = os::ThreadClock::kWall;
  about.end_reason = "something happened";
  Profile profile = decode(written(sums, about));
  EXPECT_EQ(profile.types, (std::vector<std::string>{"samples/count", "wall/nanoseconds"}));
  EXPECT_EQ(profile.period_type, "wall/nanoseconds");
  EXPECT_EQ(profile.comments.back(), "ended early: something happened");
}

TEST(CpuProfile, IsRefusedWithMemory) {
  CpuProfile sums;
  sums.add(sample_of(0x1001, 2, 3, 4));
  os::FailCalls refuse(SYS_mmap, 12);
  EXPECT_EQ(written(sums, facts()), "");
}

}  // namespace
}  // namespace seemalloc::profile
