#include "core/api/service/stall_watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/service/control.h"
#include "core/base/option_for_test.h"
#include "core/heap/maintenance/pressure.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/os/process/socket.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc {
namespace {

constexpr uint64_t kLongNs = 60 * kSecondNs, kShortNs = 20 * kMillisecondNs;

// A substitute for the kernel's report: one end of a connection, on which urgent data is POLLPRI,
// as a stall is on the kernel's file.
class Report {
 public:
  Report() {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(here);
    auto* address = reinterpret_cast<sockaddr*>(&here);
    watched_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = bind(listener, address, length) == 0 && listen(listener, 1) == 0 &&
                 getsockname(listener, address, &length) == 0 &&
                 connect(watched_, address, length) == 0;
    kernel_ = there ? accept(listener, nullptr, nullptr) : -1;
    ::close(listener);
  }
  ~Report() {
    ::close(watched_);
    ::close(kernel_);
  }
  bool is_there() const { return kernel_ >= 0; }
  // Opened as if it were the kernel's file: the watch gets its own descriptor.
  void open(StallWatch& stalls) const {
    os::AnswerCall answer(SYS_openat, dup(watched_));
    stalls.keep_open();
    EXPECT_TRUE(answer.was_called());
  }
  // The requested trigger.
  std::string trigger() const {
    char text[100] = {};
    return recv(kernel_, text, sizeof(text) - 1, 0) > 0 ? text : "";
  }
  void stall() const { EXPECT_EQ(send(kernel_, "!", 1, MSG_OOB), 1); }
  // A stall is reported to one poll; urgent data stays until it is read.
  void end() const {
    char byte;
    EXPECT_EQ(recv(watched_, &byte, 1, MSG_OOB), 1);
  }
  void break_off() {
    linger now{1, 0};
    setsockopt(kernel_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    ::close(kernel_);
    kernel_ = -1;
  }

 private:
  int watched_ = -1, kernel_ = -1;
};

// The helper's wait between two checks: returns how long it waited.
uint64_t wait(StallWatch& stalls, uint64_t timeout_ns) {
  static Control control;
  static WakeUp unused;
  uint64_t begin = os::monotonic_ns();
  control.wait(stalls, unused, timeout_ns);
  return os::monotonic_ns() - begin;
}

TEST(StallWatch, AReportEndsTheWaitAndIsTakenOnce) {
  Report report;
  if (!report.is_there()) GTEST_SKIP() << "no connection on loopback";
  StallWatch stalls;
  report.open(stalls);
  EXPECT_EQ(report.trigger(), "some 50000 1000000");
  EXPECT_GE(wait(stalls, kShortNs), kShortNs * 3 / 4);
  EXPECT_FALSE(stalls.take_report());
  report.stall();
  EXPECT_LT(wait(stalls, kLongNs), kLongNs / 2) << "there already";
  report.end();
  EXPECT_TRUE(stalls.take_report());
  EXPECT_FALSE(stalls.take_report()) << "once";
  EXPECT_GE(wait(stalls, kShortNs), kShortNs * 3 / 4);
  EXPECT_FALSE(stalls.take_report());
  CallWatch watch;
  std::thread other([&] {
    watch.wait_for(1);
    report.stall();
  });
  watch.expect_by_this_thread(SYS_ppoll);
  EXPECT_LT(wait(stalls, kLongNs), kLongNs / 2) << "while it waits";
  other.join();
  EXPECT_TRUE(stalls.take_report());
  stalls.forget();
}

TEST(StallWatch, ExitedReaderIsDropped) {
  Report report;
  if (!report.is_there()) GTEST_SKIP() << "no connection on loopback";
  StallWatch stalls;
  report.open(stalls);
  int fd = stalls.wanted().fd;
  report.break_off();
  EXPECT_LT(wait(stalls, kLongNs), kLongNs / 2);
  EXPECT_FALSE(stalls.take_report());
  EXPECT_LT(stalls.wanted().fd, 0) << "or it would end each wait";
  EXPECT_EQ(os::identity(fd), os::FileIdentity{}) << "closed";
  EXPECT_GE(wait(stalls, kShortNs), kShortNs * 3 / 4);
}

// From the descriptor to the memory: free memory is kept for its delay, and returned when tasks
// wait for memory.
TEST(StallWatch, ReportMakesTheHeapReturnMemory) {
  Report report;
  if (!report.is_there()) GTEST_SKIP() << "no connection on loopback";
  constexpr size_t kBlocks = 8192, kBlockBytes = 4 * KiB;
  options::OptionForTest long_delay(options::Id::purge_delay, "600000");
  StallWatch stalls;
  report.open(stalls);
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) *static_cast<char*>(block = sm_malloc(kBlockBytes)) = 1;
  for (void* block : blocks) sm_free(block);
  auto dirty = [] { return pages::page_statistics().dirty_bytes; };
  auto look = [&] {
    wait(stalls, kShortNs);
    heap::check_pressure_by_helper(stalls.take_report());
    return heap::pressure_statistics();
  };
  heap::PressureStatistics before = look();
  if (before.now) GTEST_SKIP() << "memory is short without a report: the cgroup's limit is near";
  ASSERT_GE(dirty(), kBlocks * kBlockBytes / 2) << "nothing goes by itself";
  report.stall();
  heap::PressureStatistics after = look();
  report.end();
  EXPECT_TRUE(after.now);
  EXPECT_EQ(after.times, before.times + 1);
  EXPECT_EQ(after.rounds, before.rounds + 1);
  EXPECT_GE(after.purged_bytes - before.purged_bytes, kBlocks * kBlockBytes / 2);
  EXPECT_LT(dirty(), kBlocks * kBlockBytes / 16);
  EXPECT_EQ(look().times, after.times) << "one report";
  stalls.forget();
}

// The machine's report covers other processes, too: it does not replace the cgroup's report just
// because another thread holds the turn.
TEST(StallWatch, RetriesSoonWhileAnotherThreadChecks) {
  StallWatch stalls;
  {
    heap::PressureCheckLock turn;
    if (!turn.mine) GTEST_SKIP() << "the helper looks";
    char path[400];
    EXPECT_EQ(heap::memory_group_file("memory.pressure", path), heap::GroupFile::kBusy);
    stalls.keep_open();
    EXPECT_LT(stalls.wanted().fd, 0) << "the process's group is unknown now";
  }
  int machine = os::watch_stalls("/proc/pressure/memory");
  if (machine < 0) GTEST_SKIP() << "this kernel reports nothing";
  os::close_file(machine);
  stalls.keep_open();
  EXPECT_GE(stalls.wanted().fd, 0) << "without waiting for the next try";
  stalls.forget();
}

TEST(PressureCheckLock, OneThreadChecks) {
  {
    heap::PressureCheckLock turn;
    if (!turn.mine) GTEST_SKIP() << "the helper looks";
    EXPECT_FALSE(heap::PressureCheckLock().mine);
    EXPECT_FALSE(heap::PressureCheckLock().mine) << "who has no turn ends none";
  }
  EXPECT_TRUE(heap::PressureCheckLock().mine);
}

}  // namespace
}  // namespace seemalloc
