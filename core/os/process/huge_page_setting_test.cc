#include "core/os/process/huge_page_setting.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/os/kernel/fault.h"

namespace seemalloc::os {
namespace {

// Imitates the kernel's files.
class Folder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/huge_page_setting_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    path = name;
    write("hpage_pmd_size", "2097152\n");
    write("enabled", "always [madvise] never\n");
  }
  void TearDown() override { std::filesystem::remove_all(path); }
  void write(const char* name, const char* text) { std::ofstream(path + "/" + name) << text; }
  void write_for_size(const char* text) {
    mkdir((path + "/hugepages-2048kB").c_str(), 0700);
    write("hugepages-2048kB/enabled", text);
  }
  // Long after the last time.
  bool allows() { return setting.allows(now_ns += HugePageSetting::kKnownForNs, path.c_str()); }

  std::string path;
  uint64_t now_ns = 0;
  HugePageSetting setting;
};

TEST_F(Folder, TheSystemsWordIsReadAgain) {
  EXPECT_TRUE(allows());
  write("enabled", "always madvise [never]\n");
  EXPECT_FALSE(allows());
  write("enabled", "[always] madvise never\n");
  EXPECT_TRUE(allows());
  write("enabled", "");
  EXPECT_FALSE(allows());
}

TEST_F(Folder, TheWordForTheSizeCountsMore) {
  write_for_size("always [inherit] madvise never\n");
  EXPECT_TRUE(allows());
  write("enabled", "always madvise [never]\n");
  EXPECT_FALSE(allows());
  write_for_size("[always] inherit madvise never\n");
  EXPECT_TRUE(allows());
  write("enabled", "[always] madvise never\n");
  write_for_size("always inherit madvise [never]\n");
  EXPECT_FALSE(allows());
}

TEST_F(Folder, HugePagesOfOtherSizesAreRejected) {
  write("hpage_pmd_size", "536870912\n");
  EXPECT_FALSE(allows());
}

TEST_F(Folder, UnreadableSettingIsNo) {
  EXPECT_FALSE(setting.allows(1, "/nowhere"));
  HugePageSetting other;
  std::filesystem::remove(path + "/enabled");
  EXPECT_FALSE(other.allows(1, path.c_str()));
  write("enabled", "[always] madvise never\n");
  FailCalls refuse(SYS_openat, EPERM);
  EXPECT_FALSE(other.allows(1, path.c_str()));
}

TEST_F(Folder, FilesAreNeitherKeptOpenNorReadOften) {
  auto open_files = [] {
    std::filesystem::directory_iterator all("/proc/self/fd"), end;
    return std::distance(all, end);
  };
  write_for_size("always [inherit] madvise never\n");
  auto before = open_files();
  EXPECT_TRUE(allows());
  EXPECT_EQ(open_files(), before);
  write("enabled", "always madvise [never]\n");
  EXPECT_TRUE(setting.allows(now_ns + HugePageSetting::kKnownForNs - 1, path.c_str()));
  EXPECT_FALSE(setting.allows(now_ns + HugePageSetting::kKnownForNs, path.c_str()));
  write("enabled", "always [madvise] never\n");
  EXPECT_TRUE(setting.allows(now_ns + HugePageSetting::kKnownForNs, path.c_str()));
}

TEST_F(Folder, TheProcessMayHaveTurnedThemOff) {
  int child = fork();
  if (child == 0) {
    bool before = allows();
    bool refused = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0;
    _exit(before && (refused || !allows()) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace seemalloc::os
