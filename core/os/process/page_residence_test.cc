// Resident and unshared memory: untouched, written, shared with a forked child, and when the kernel
// does not report it.
#include "core/os/process/page_residence.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::os {
namespace {

constexpr size_t kBytes = 3 * MiB;

class PageResidenceTest : public testing::Test {
 protected:
  void SetUp() override {
    memory = static_cast<char*>(map_aligned(kBytes, kPageBytes, Reason::kGrowth));
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    memset(memory, 1, kBytes);
  }
  void TearDown() override {
    residence.close();
    unmap(memory, kBytes, Reason::kGrowth);
  }

  char* memory = nullptr;
  PageResidence residence;
};

TEST_F(PageResidenceTest, CountsResidentPages) {
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), kBytes);
  madvise(memory + MiB, 64 * KiB, MADV_DONTNEED);
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), kBytes - 64 * KiB);
  EXPECT_EQ(residence.exclusive_bytes(memory + MiB, 64 * KiB), 0u);
}

TEST_F(PageResidenceTest, PagesSharedWithAForkedChildAreNotExclusive) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int child = fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte;
    _exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(ends[0]);
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), 0u);
  memset(memory, 2, MiB);  // copied on write
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), MiB);
  ::close(ends[1]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), kBytes);
}

TEST_F(PageResidenceTest, IsEmptyIfTheKernelDoesNotAnswer) {
  {
    FailCalls refuse(SYS_openat, EACCES);
    EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), 0u);
  }
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), kBytes) << "asked again";
  FailCalls refuse(SYS_pread64, EIO);
  EXPECT_EQ(residence.exclusive_bytes(memory, kBytes), 0u);
}

}  // namespace
}  // namespace seemalloc::os
