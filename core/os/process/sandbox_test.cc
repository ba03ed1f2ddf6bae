// The calls still made once a filter is known, the threads that make them, and the result of each
// function then. Tests with real filters: tests/abi `sandbox_*`.
#include "core/os/process/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/cpus.h"
#include "core/os/process/process.h"
#include "core/os/process/socket.h"
#include "core/os/process/threads.h"

namespace seemalloc::os {
namespace {

class Filter {
 public:
  explicit Filter(bool for_all) : for_all_(for_all) { begin_filter_install(for_all); }
  ~Filter() { filter_was_refused(for_all_); }

 private:
  bool for_all_;
};

bool opens_files() {
  int fd = open_file("/proc/self/status", O_RDONLY);
  if (fd < 0) return fd != -EPERM;
  close_file(fd);
  return true;
}

TEST(Sandbox, OnlyBasicCallsAreMade) {
  int process = process_id(), thread = thread_id();
  uint64_t used = thread_cpu_ns(), used_by_all = process_cpu_ns();
  ASSERT_TRUE(opens_files());
  {
    Filter filter(true);
    EXPECT_TRUE(calls_are_limited());
    EXPECT_FALSE(opens_files());
    EXPECT_FALSE(fence_all_threads());
    EXPECT_EQ(process_id(), process) << "as it was told";
    EXPECT_EQ(thread_id(), thread);
    char name[kThreadNameBytes];
    EXPECT_FALSE(own_thread_name(name));
    uint64_t word = 7, copy = 0;
    EXPECT_FALSE(read_memory(&word, &copy, sizeof(copy)));
    EXPECT_GE(cpu_count(), 1u);
    EXPECT_TRUE(is_in_a_sandbox());
    // Memory can be mapped and unmapped.
    size_t bytes = 16 * page_bytes();
    char* memory = static_cast<char*>(map(bytes, Reason::kReport));
    ASSERT_NE(memory, nullptr);
    memory[0] = 1;
    size_t resident = 0;
    EXPECT_FALSE(query_resident_bytes(memory, bytes, Reason::kReport, &resident));
    EXPECT_FALSE(set_huge_pages(memory, bytes, true));
    EXPECT_LT(collapse_into_huge_pages(memory, bytes), 0);
    EXPECT_TRUE(purge(memory, bytes, Reason::kReport));
    EXPECT_EQ(memory[0], 0);
    EXPECT_FALSE(map_at(reinterpret_cast<uintptr_t>(memory), page_bytes(), Reason::kReport))
        << "existing contents stay";
    EXPECT_EQ(memory[0], 0);
    EXPECT_TRUE(unmap(memory, bytes, Reason::kReport));
    EXPECT_TRUE(map_at(reinterpret_cast<uintptr_t>(memory), bytes, Reason::kReport));
    EXPECT_TRUE(unmap(memory, bytes, Reason::kReport));
    // CPU time advances with elapsed time.
    uint64_t then = thread_cpu_ns(), then_by_all = process_cpu_ns();
    EXPECT_GE(then, used);
    EXPECT_GE(then_by_all, used_by_all);
    pause(20 * kMillisecondNs);
    EXPECT_GE(thread_cpu_ns(), then + 20 * kMillisecondNs);
    EXPECT_GE(process_cpu_ns(), then_by_all + 20 * kMillisecondNs);
    EXPECT_LT(thread_cpu_ns(), then + 1000 * kSecondNs) << "not the age of the machine";
  }
  EXPECT_FALSE(calls_are_limited());
  EXPECT_TRUE(opens_files());
}

TEST(Sandbox, ThreadsThatBeginThereHaveNumbersOfTheirOwn) {
  Filter filter(true);
  int first = 0, second = 0;
  std::thread thread([&] {
    first = thread_id();
    std::thread([&] { second = thread_id(); }).join();
    EXPECT_EQ(thread_id(), first);
  });
  thread.join();
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_NE(first, second);
}

TEST(Sandbox, TheHelperIsOutsideOfAThreadsFilterAndInsideOfOneForAll) {
  std::thread([] {
    this_thread_is_the_helper();
    std::thread program([] {
      Filter filter(false);
      EXPECT_TRUE(calls_are_limited());
      EXPECT_FALSE(all_threads_calls_are_limited());
    });
    program.join();
    {
      Filter filter(false);
      EXPECT_FALSE(calls_are_limited());
      EXPECT_TRUE(opens_files());
      Filter other(true);
      EXPECT_TRUE(calls_are_limited());
      EXPECT_TRUE(all_threads_calls_are_limited());
    }
    EXPECT_FALSE(calls_are_limited());
  }).join();
}

bool is_blocked(int signal) {
  uint64_t mask = 0;
  EXPECT_EQ(raw_sys(SYS_rt_sigprocmask, SIG_BLOCK, 0, as_long(&mask), sizeof(mask), 0, 0), 0);
  return (mask & mask_of(signal)) != 0;
}

// A filter may be installed or refused between the two calls.
TEST(Sandbox, AChangedSignalMaskIsRestoredAndAnUnchangedOneLeft) {
  MaskBefore open = change_signal_mask(SIG_BLOCK, mask_of(SIGUSR1));
  ASSERT_TRUE(is_blocked(SIGUSR1));
  {
    Filter came(false);
    restore_signal_mask(open);
    EXPECT_FALSE(is_blocked(SIGUSR1));
  }
  open = change_signal_mask(SIG_BLOCK, mask_of(SIGUSR1));
  MaskBefore unknown;
  {
    Filter refused(true);
    unknown = change_signal_mask(SIG_BLOCK, mask_of(SIGUSR2));
    EXPECT_FALSE(is_blocked(SIGUSR2));
  }
  restore_signal_mask(unknown);
  EXPECT_TRUE(is_blocked(SIGUSR1)) << "by the program";
  restore_signal_mask(open);
  EXPECT_FALSE(is_blocked(SIGUSR1));
}

TEST(Sandbox, RefusedFilterDoesNotLiftAnother) {
  Filter stays(false);
  for (int i = 0; i < 3; i++) {
    Filter refused(true);
    Filter also_refused(false);
  }
  EXPECT_TRUE(calls_are_limited());
  EXPECT_FALSE(all_threads_calls_are_limited());
}

// ---- waits that the kernel refuses ----

TEST(RefusedWaits, AreSleptThrough) {
  for (long call : {SYS_futex, SYS_ppoll}) {
    for (int error : {EPERM, ENOSYS, EINVAL}) {
      FailCalls refused(call, error);
      uint64_t begin = monotonic_ns();
      pause(10 * kMillisecondNs);
      Poll none[2] = {{-1, false}, {-1, false}};
      poll_ready(none, 2, 10 * kMillisecondNs);
      EXPECT_GE(monotonic_ns() - begin, 20 * kMillisecondNs) << call << " refused with " << error;
      EXPECT_TRUE(can_pause());
    }
  }
}

TEST(RefusedWaits, ASandboxHasOneThatIsAllowed) {
  Filter filter(true);
  uint64_t begin = monotonic_ns();
  Poll none[1] = {{-1, false}};
  poll_ready(none, 1, 20 * kMillisecondNs);
  EXPECT_GE(monotonic_ns() - begin, 20 * kMillisecondNs);
}

// The kernel refuses a list longer than the process may have descriptors, whatever its entries.
TEST(RefusedWaits, ClosedSlotsDoNotCount) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = {2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<Poll> polls(11, Poll{-1, false});
  polls[7] = {ends[0], false};
  poll_ready(polls.data(), polls.size(), kSecondNs);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (size_t i = 0; i < polls.size(); i++) EXPECT_EQ(polls[i].ready, i == 7) << i;
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace seemalloc::os
