#include "core/os/runtime/bare_thread.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/wait.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/os/process/threads.h"

namespace seemalloc::os {
namespace {

constexpr size_t kStackBytes = 256 * KiB;
constexpr uint64_t kLongNs = 60 * kSecondNs;

// A variable in the thread-local memory of this program, which is linked with the library.
alignas(64) thread_local int own[100];
std::atomic<int> seen_thread{0}, found{0}, go_on{0};
std::atomic<uint64_t> seen_mask{0};
std::atomic<const void*> seen_own{nullptr};

void run(BareThread& thread, int (*what)()) {
  ASSERT_TRUE(thread.start(what, kStackBytes));
  thread.wait_for_end(kLongNs);
  ASSERT_EQ(thread.id(), 0);
}

int look_at_own_memory() {
  int not_zero = errno;
  for (int word : own) not_zero |= word;
  memset(own, 1, sizeof(own));
  errno = EDOM;
  found = not_zero;
  seen_own = own;
  seen_thread = thread_id();
  return 0;
}

TEST(BareThread, HasItsOwnZeroedMemory) {
  BareThread thread;
  memset(own, 7, sizeof(own));
  for (int i = 0; i < 200; i++) {
    errno = EBADF;
    run(thread, look_at_own_memory);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(found, 0);
    EXPECT_NE(seen_own.load(), own);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(seen_own.load()) % 64, 0u);
    EXPECT_NE(seen_thread, thread_id());
  }
  EXPECT_EQ(own[0], 0x07070707);
}

// Another thread of the program may fork while the memory is made. The child starts a thread of its
// own.
BareThread* half_made = nullptr;
int status_of_child = -1;
long fork_at_mprotect(long number) {
  if (number != SYS_mprotect || half_made == nullptr) return 0;
  BareThread& thread = *half_made;
  half_made = nullptr;
  pid_t child = fork();
  if (child == 0) {
    thread.forget();
    if (!thread.start(look_at_own_memory, kStackBytes)) _exit(1);
    thread.wait_for_end(kLongNs);
    _exit(thread.id() == 0 ? 0 : 2);
  }
  waitpid(child, &status_of_child, 0);
  return 0;
}
TEST(BareThread, StartsInAChildOfAForkWhileItsMemoryWasMade) {
  BareThread thread;
  half_made = &thread;
  fault_hook = fork_at_mprotect;
  run(thread, look_at_own_memory);
  fault_hook = nullptr;
  if (half_made != nullptr)
    GTEST_SKIP() << "an ordinary thread in this build: its memory is not made here";
  EXPECT_EQ(status_of_child, 0);
}

int use_all_of_the_stack() {
  volatile char most[kStackBytes - 16 * KiB];
  for (size_t i = 0; i < sizeof(most); i += 512) most[i] = 1;
  return 0;
}
TEST(BareThread, HasTheRequestedStack) {
  BareThread thread;
  run(thread, use_all_of_the_stack);
}

int wait_for_word() {
  while (go_on == 0) futex_wait(&go_on, 0);
  return 0;
}
TEST(BareThread, IsAThreadOfTheProcessUntilItEnds) {
  BareThread thread;
  go_on = 0;
  unsigned before = thread_count();
  ASSERT_TRUE(thread.start(wait_for_word, kStackBytes));
  ASSERT_TRUE(wait_until([&] { return thread.id() > 0; }, "the thread's id"));
  int id = thread.id();
  EXPECT_TRUE(is_thread(id));
  EXPECT_EQ(thread_count(), before + 1);
  thread.wait_for_end(20 * kMillisecondNs);
  EXPECT_EQ(thread.id(), id) << "it has not ended";
  go_on = 1;
  futex_wake(&go_on, INT_MAX);
  thread.wait_for_end(kLongNs);
  EXPECT_EQ(thread.id(), 0);
  EXPECT_FALSE(is_thread(id));
}

// unshare(CLONE_NEWUSER) and similar calls fail while the process has another thread.
TEST(BareThread, IsNoThreadOfTheProcessAfterTheWait) {
  BareThread thread;
  for (int i = 0; i < 3000; i++) {
    ASSERT_TRUE(thread.start(look_at_own_memory, kStackBytes));
    while (thread.id() != 0) continue;  // does not sleep, so that it sees the moment
    thread.wait_for_end(kLongNs);
    ASSERT_FALSE(is_thread(seen_thread)) << i;
  }
}

TEST(BareThread, IsNotWaitedForWhenItsIdCannotBeLookedUp) {
  BareThread thread;
  FailCalls refuse(SYS_tgkill, EPERM);
  run(thread, look_at_own_memory);
}

int read_mask() {
  seen_mask = change_signal_mask(SIG_BLOCK, 0).mask;
  return 0;
}
TEST(BareThread, HasTheSignalMaskOfItsStarter) {
  BareThread thread;
  MaskBefore before = change_signal_mask(SIG_BLOCK, mask_of(SIGUSR1) | mask_of(SIGWINCH));
  run(thread, read_mask);
  restore_signal_mask(before);
  EXPECT_EQ(seen_mask & (mask_of(SIGUSR1) | mask_of(SIGWINCH)),
            mask_of(SIGUSR1) | mask_of(SIGWINCH));
}

#ifndef __SANITIZE_THREAD__
int nothing() { return 0; }
TEST(BareThread, IsRefusedAndStartsLater) {
  for (long call : {SYS_clone, SYS_mmap}) {
    BareThread thread;
    {
      FailCalls refuse(call, ENOMEM);
      EXPECT_FALSE(thread.start(nothing, kStackBytes)) << call;
      EXPECT_EQ(refuse.refusals(), 1u) << call;
      EXPECT_EQ(thread.id(), 0);
    }
    run(thread, look_at_own_memory);
    EXPECT_EQ(found, 0);
  }
}

// If the futex call is refused, wait_for_end checks at intervals.
TEST(BareThread, IsWaitedForWithoutFutex) {
  BareThread thread;
  FailCalls refuse(SYS_futex, EPERM);
  run(thread, look_at_own_memory);
}

TEST(BareThread, IsForgottenInTheChildOfFork) {
  static BareThread thread;
  go_on = 0;
  ASSERT_TRUE(thread.start(wait_for_word, kStackBytes));
  pid_t child = fork();
  if (child == 0) {
    if (thread.id() == 0) _exit(1);
    thread.forget();
    found = 1;
    bool started = thread.start(look_at_own_memory, kStackBytes);
    thread.wait_for_end(kLongNs);
    _exit(started && thread.id() == 0 && found == 0 ? 0 : 2);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  go_on = 1;
  futex_wake(&go_on, INT_MAX);
  thread.wait_for_end(kLongNs);
  EXPECT_EQ(thread.id(), 0);
}
#endif

}  // namespace
}  // namespace seemalloc::os
