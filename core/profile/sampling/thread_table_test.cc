// Tests the table of thread names against a model: a number is assigned once, kept while samples
// have it, and becomes available again.
#include "core/profile/sampling/thread_table.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/waits_for_test.h"

namespace seemalloc::profile {
namespace {

// Not the id of any thread of this process.
constexpr uint32_t kUnusedThreadId = 1 << 29;

std::unique_ptr<ThreadTable> make_names() { return std::make_unique<ThreadTable>(); }

uint32_t add(ThreadTable& names, uint32_t id, const std::string& name) {
  return names.add(id, name.c_str());
}

TEST(ThreadTable, KeepsTheLastName) {
  auto names = make_names();
  char before[os::kThreadNameBytes];
  ASSERT_TRUE(os::own_thread_name(before));
  Progress step;
  uint32_t number = 0, id = 0;
  std::thread worker([&] {
    id = static_cast<uint32_t>(os::thread_id());
    prctl(PR_SET_NAME, "first");
    number = add(*names, id, "first");
    prctl(PR_SET_NAME, "second");
    step.advance();
    step.wait_for(2);
    prctl(PR_SET_NAME, "third");
    names->thread_exits(number);
  });
  step.wait_for(1);
  EXPECT_STREQ(names->get(number).name, "first");
  names->refresh();
  EXPECT_STREQ(names->get(number).name, "second");
  step.advance();
  worker.join();
  names->refresh();
  EXPECT_STREQ(names->get(number).name, "third");
  EXPECT_EQ(names->get(number).id, id);
  prctl(PR_SET_NAME, before);
}

TEST(ThreadTable, CutsALongName) {
  auto names = make_names();
  EXPECT_STREQ(names->get(add(*names, kUnusedThreadId, "a name of more than fifteen letters")).name,
               "a name of more ");
}

TEST(ThreadTable, FullTableRecyclesNumbersWithoutSamples) {
  auto names = make_names();
  for (uint32_t i = 1; i <= ThreadTable::kMaxThreads; i++)
    ASSERT_EQ(add(*names, kUnusedThreadId + i, "t" + std::to_string(i)), i);
  EXPECT_EQ(add(*names, kUnusedThreadId, "one more"), 0u);
  // Their end was not reported, but the kernel has no threads with these ids.
  ASSERT_TRUE(names->begin_recycling());
  EXPECT_FALSE(names->begin_recycling()) << "two at once";
  ThreadTable::SlotSet marks;
  for (uint32_t i = 1; i <= ThreadTable::kMaxThreads; i++) {
    if (i % 3 == 0) marks.set(i);
  }
  names->recycle(marks);
  std::set<uint32_t> fresh;
  while (uint32_t number = add(*names, kUnusedThreadId, "fresh"))
    ASSERT_TRUE(fresh.insert(number).second);
  EXPECT_EQ(fresh.size(), ThreadTable::kMaxThreads - ThreadTable::kMaxThreads / 3);
  for (uint32_t i = 3; i <= ThreadTable::kMaxThreads; i += 3)
    ASSERT_EQ(names->get(i).name, "t" + std::to_string(i));
}

// A walk over all samples that frees nothing is not repeated at once.
TEST(ThreadTable, PausesWhereThereIsNothingToRecycle) {
  auto names = make_names();
  ThreadTable::SlotSet all;
  for (uint32_t i = 1; i <= ThreadTable::kMaxThreads; i++) {
    add(*names, kUnusedThreadId + i, "x");
    all.set(i);
  }
  os::advance_test_clock(0);  // from here on time passes only by such calls
  ASSERT_TRUE(names->begin_recycling());
  names->recycle(all);
  os::advance_test_clock(900 * kMillisecondNs);
  ASSERT_FALSE(names->begin_recycling());
  os::advance_test_clock(200 * kMillisecondNs);
  ASSERT_TRUE(names->begin_recycling());
  names->recycle(ThreadTable::SlotSet{});
  EXPECT_TRUE(names->begin_recycling()) << "it was worth it";
}

// An early attempt that freed little does not prevent recycling when a slot is needed.
TEST(ThreadTable, IsRecycledAfterAnEarlyAttemptFreedLittle) {
  auto names = make_names();
  for (uint32_t i = 1; i <= 10; i++) add(*names, kUnusedThreadId + i, "early");
  os::advance_test_clock(0);  // from here on time passes only by such calls
  ASSERT_TRUE(names->begin_recycling(ThreadTable::When::kEarly));
  names->recycle(ThreadTable::SlotSet{});
  os::advance_test_clock(900 * kMillisecondNs);
  ASSERT_FALSE(names->begin_recycling(ThreadTable::When::kEarly))
      << "each time all samples are walked";
  for (uint32_t i = 1; i <= ThreadTable::kMaxThreads; i++)
    ASSERT_NE(add(*names, kUnusedThreadId + i, "x"), 0u);
  ASSERT_EQ(add(*names, kUnusedThreadId, "one more"), 0u);
  ASSERT_TRUE(names->begin_recycling());
  names->recycle(ThreadTable::SlotSet{});
  EXPECT_NE(add(*names, kUnusedThreadId, "one more"), 0u);
}

// A running thread keeps its number, and so does one that ends while samples are searched.
TEST(ThreadTable, KeepsThreadsThatMayHaveSamples) {
  auto names = make_names();
  uint32_t own = add(*names, static_cast<uint32_t>(os::thread_id()), "own"),
           ends = add(*names, kUnusedThreadId, "ends"), before = 0;
  std::thread([&] {
    before = add(*names, static_cast<uint32_t>(os::thread_id()), "before");
    names->thread_exits(before);
  }).join();
  Progress step;
  uint32_t late = 0;
  std::thread other([&] {
    late = add(*names, static_cast<uint32_t>(os::thread_id()), "late");
    step.advance();
    step.wait_for(2);
  });
  step.wait_for(1);
  ASSERT_TRUE(names->begin_recycling());
  step.advance();
  other.join();
  names->mark_exited(late);
  names->recycle(ThreadTable::SlotSet{});
  EXPECT_STREQ(names->get(own).name, "own");
  EXPECT_STREQ(names->get(late).name, "late") << "it ended after recycling had begun";
  EXPECT_EQ(names->get(before).id, 0u);
  EXPECT_EQ(names->get(ends).id, 0u);
}

// If the kernel gives an id to another thread, the former thread has exited. It keeps its name.
TEST(ThreadTable, DistinguishesThreadsWithTheSameId) {
  auto names = make_names();
  uint32_t first = add(*names, kUnusedThreadId, "first"),
           second = add(*names, kUnusedThreadId, "second");
  EXPECT_NE(first, second);
  uint32_t mine = static_cast<uint32_t>(os::thread_id()), gone = add(*names, mine, "gone"),
           own = add(*names, mine, "own");
  names->refresh();
  EXPECT_STREQ(names->get(first).name, "first");
  EXPECT_STREQ(names->get(second).name, "second");
  EXPECT_STREQ(names->get(gone).name, "gone")
      << "it has got the name of the thread that has its id now";
  char name[os::kThreadNameBytes];
  ASSERT_TRUE(os::own_thread_name(name));
  EXPECT_STREQ(names->get(own).name, name);
}

TEST(ThreadTable, KnowsAForkedChildsOwnThread) {
  auto names = make_names();
  uint32_t other = add(*names, kUnusedThreadId, "other"),
           own = add(*names, static_cast<uint32_t>(os::thread_id()), "own");
  pid_t child = fork();
  if (child == 0) {
    names->reset_in_child(own, static_cast<uint32_t>(os::thread_id()));
    if (names->get(own).id != static_cast<uint32_t>(getpid())) _exit(1);
    if (std::string(names->get(other).name) != "other") _exit(2);
    if (!names->begin_recycling()) _exit(3);
    names->recycle(ThreadTable::SlotSet{});
    _exit(names->get(own).id != 0 && names->get(other).id == 0 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// fork waits for the lock for a limited time only. The thread that holds it does not exist in the
// child.
TEST(ThreadTable, ForkedChildNeedsNoLockThatAnotherThreadHolds) {
  auto names = make_names();
  uint32_t own = add(*names, static_cast<uint32_t>(os::thread_id()), "own");
  std::thread([&] { names->lock_for_fork(); }).join();
  names->lock_for_fork();
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    names->unlock_after_fork();
    names->reset_in_child(own, static_cast<uint32_t>(os::thread_id()));
    _exit(names->get(own).id == static_cast<uint32_t>(getpid()) &&
                  add(*names, kUnusedThreadId, "another") == own + 1
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadTable, KeepsNamesWithoutProc) {
  auto names = make_names();
  uint32_t own = add(*names, static_cast<uint32_t>(os::thread_id()), "as it was");
  {
    os::FailCalls refuse(SYS_openat, 13);
    names->refresh();
  }
  EXPECT_STREQ(names->get(own).name, "as it was");
}

// Threads are added, ended, read and recycled at the same time. Each sees its own name as long as
// it has its number.
TEST(ThreadTable, ThreadsAtOnce) {
  auto names = make_names();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::thread recycler([&] {
    while (!stop) {
      names->refresh();
      if (names->begin_recycling()) names->recycle(ThreadTable::SlotSet{});
      os::advance_test_clock(kSecondNs);  // the next round recycles as well
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      prctl(PR_SET_NAME, ("thread" + std::to_string(t)).c_str());
      for (int i = 0; i < 2000; i++) {
        uint32_t number;
        while ((number = add(*names, static_cast<uint32_t>(os::thread_id()),
                             "thread" + std::to_string(t))) == 0)
          std::this_thread::yield();
        ThreadTable::Thread found = names->get(number);
        if (found.name != "thread" + std::to_string(t) ||
            found.id != static_cast<uint32_t>(os::thread_id()))
          wrong++;
        names->thread_exits(number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  recycler.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace seemalloc::profile
