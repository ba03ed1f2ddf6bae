#include "core/os/process/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/process/cgroup_text.h"
#include "core/os/process/cpus.h"

namespace seemalloc::os {
namespace {

Slice slice(const std::string& text) { return Slice{text.data(), text.size()}; }

// ---- parsing ----

std::string group(const std::string& line, const char* controller) {
  Slice path;
  return parse_group(slice(line), controller, &path) ? std::string(path.at, path.length) : "none";
}

TEST(CgroupText, FindsTheGroupOfAController) {
  EXPECT_EQ(group("4:memory:/docker/abc", "memory"), "/docker/abc");
  EXPECT_EQ(group("3:cpu,cpuacct:/system.slice", "cpu"), "/system.slice");
  EXPECT_EQ(group("3:cpu,cpuacct:/system.slice", "cpua"), "none") << "whole words only";
  EXPECT_EQ(group("0::/user.slice/user-0.slice", ""), "/user.slice/user-0.slice");
  EXPECT_EQ(group("0::/user.slice", "memory"), "none");
  EXPECT_EQ(group("1:name=systemd:/init.scope", ""), "none");
  EXPECT_EQ(group("0::/with:colon", ""), "/with:colon");
  EXPECT_EQ(group("0::/../sibling", ""), "/../sibling");
  for (const char* broken : {"", "4", "4:memory", "4:memory:", "0::"})
    EXPECT_EQ(group(broken, "memory"), "none") << broken;
}

std::string mount(const std::string& line, const char* controller) {
  FixedText<100> root, point;
  return parse_mount(slice(line), controller, root, point)
             ? std::string(root.c_str()) + " " + point.c_str()
             : "none";
}

TEST(CgroupText, FindsTheMountOfAHierarchy) {
  EXPECT_EQ(
      mount("35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory", "memory"),
      "/ /sys/fs/cgroup/memory");
  EXPECT_EQ(
      mount(
          "35 31 0:32 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct",
          "cpu"),
      "/docker/abc /sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(
      mount(
          "30 23 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate",
          ""),
      "/ /sys/fs/cgroup");
  EXPECT_EQ(mount("30 23 0:26 /a\\040b /c\\134d rw - cgroup2 cgroup2 rw", ""), "/a b /c\\d");
  EXPECT_EQ(mount("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "memory"), "none");
  EXPECT_EQ(mount("35 31 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset", "cpu"),
            "none");
  EXPECT_EQ(mount("31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755", ""), "none");
  for (const char* broken :
       {"", "35", "35 31 0:32 /", "35 31 0:32 / /p rw", "35 31 0:32 / /p rw - cgroup"}) {
    EXPECT_EQ(mount(broken, "memory"), "none") << broken;
  }
  EXPECT_EQ(mount("1 2 0:1 / /" + std::string(200, 'x') + " rw - cgroup2 c rw", ""), "none")
      << "too long for the buffer";
}

std::string directory(const std::string& root, const std::string& point, const std::string& path) {
  FixedText<200> text;
  group_directory(slice(root), slice(point), slice(path), text);
  return text.c_str();
}

TEST(CgroupText, PutsPathsTogether) {
  EXPECT_EQ(directory("/", "/cg", "/a/b"), "/cg/a/b");
  EXPECT_EQ(directory("/", "/cg", "/"), "/cg");
  EXPECT_EQ(directory("/docker/abc", "/cg", "/docker/abc"), "/cg")
      << "the mount is the group itself";
  EXPECT_EQ(directory("/docker/abc", "/cg", "/docker/abc/inner"), "/cg/inner");
  EXPECT_EQ(directory("/docker/abc", "/cg", "/docker/abcd"), "/cg") << "not a part of it";
  EXPECT_EQ(directory("/docker/abc", "/cg", "/"), "/cg") << "the path is another namespace's";
  EXPECT_EQ(directory("/", "/cg", "/../sibling"), "/cg");
  EXPECT_EQ(directory("/..", "/cg", "/a"), "/cg");
  EXPECT_EQ(directory("/", "/cg", "/a..b"), "/cg/a..b");
}

TEST(CgroupText, ReadsLimits) {
  auto limit = [](const char* text) {
    size_t bytes = 7;
    return parse_limit(Slice{text, text_length(text)}, &bytes) ? bytes : 0;
  };
  EXPECT_EQ(limit("max"), SIZE_MAX);
  EXPECT_EQ(limit("1073741824"), 1073741824u);
  EXPECT_EQ(limit("9223372036854771712"), SIZE_MAX) << "version 1, 4 KiB pages";
  EXPECT_EQ(limit("9223372036854710272"), SIZE_MAX) << "64 KiB pages";
  EXPECT_EQ(limit("99999999999999999999999"), SIZE_MAX);
  EXPECT_EQ(limit(""), 0u);
  EXPECT_EQ(limit("lots"), 0u);
  uint64_t number = 0;
  EXPECT_TRUE(parse_keyed(slice("total_inactive_file 4096"), "total_inactive_file", &number));
  EXPECT_EQ(number, 4096u);
  EXPECT_FALSE(parse_keyed(slice("inactive_file_x 4096"), "inactive_file", &number));
  EXPECT_FALSE(parse_keyed(slice("high"), "high", &number));
}

TEST(CgroupText, ReadsQuotas) {
  EXPECT_EQ(parse_cpu_max(slice("max 100000")), 0u);
  EXPECT_EQ(parse_cpu_max(slice("200000 100000")), 2u);
  EXPECT_EQ(parse_cpu_max(slice("150000 100000")), 2u) << "rounded up";
  EXPECT_EQ(parse_cpu_max(slice("1000 100000")), 1u);
  EXPECT_EQ(parse_cpu_max(slice("200000")), 0u);
  EXPECT_EQ(parse_cpu_max(slice("200000 0")), 0u);
  EXPECT_EQ(cpus_of_quota(slice("-1"), slice("100000")), 0u);
  EXPECT_EQ(cpus_of_quota(slice("350000"), slice("100000")), 4u);
}

// ---- the files, in a tree of the test ----

class Cgroup : public testing::Test {
 protected:
  void SetUp() override {
    top_ = testing::TempDir() + "/cgroup_test_" + std::to_string(getpid());
    std::filesystem::remove_all(top_);
    std::filesystem::create_directories(top_ + "/proc");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::path path = top_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // A mount line of version 1 or 2 with mount point `point` below the test's tree.
  std::string line(const std::string& root, const std::string& point, const std::string& kind) {
    return "35 31 0:32 " + root + " " + top_ + point + " rw,relatime shared:5 - " + kind + "\n";
  }
  std::string proc() { return top_ + "/proc"; }

  std::string top_;
};

constexpr char kV1[] = "cgroup cgroup rw,memory", kV2[] = "cgroup2 cgroup2 rw,nsdelegate";

TEST_F(Cgroup, DockerVersion1SeesItsOwnGroupAtTheMountPoint) {
  write("proc/cgroup",
        "11:cpu,cpuacct:/docker/abc\n9:memory:/docker/abc\n0::/system.slice/containerd.service\n");
  write("proc/mountinfo", line("/", "/other", "tmpfs tmpfs rw") + line("/docker/abc", "/mem", kV1) +
                              line("/docker/abc", "/cpu", "cgroup cgroup rw,cpu,cpuacct"));
  write("mem/memory.limit_in_bytes", "268435456\n");
  write("mem/memory.usage_in_bytes", "104857600\n");
  write(
      "mem/memory.stat",
      "cache 1\ninactive_file 5\ntotal_cache 9\ntotal_inactive_file 4194304\ntotal_active_file 2097152\n");
  write("mem/memory.failcnt", "12\n");
  write("cpu/cpu.cfs_quota_us", "150000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 256 * MiB);
  GroupUsage usage;
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.bytes, 100 * MiB) << "far from the limit nothing else is read";
  EXPECT_EQ(usage.limit_events, 0u);
  write("mem/memory.usage_in_bytes", "262144000\n");
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.bytes, 250 * MiB - 6 * MiB) << "file pages go first";
  EXPECT_EQ(usage.limit_events, 12u);
  EXPECT_EQ(cpu_quota(proc().c_str()), 2u);
  char path[MemoryGroup::kMaxPath];
  EXPECT_EQ(memory.file_path("memory.pressure", path), nullptr) << "version 1 has none";
}

TEST_F(Cgroup, Version2InANamespace) {
  write("proc/cgroup", "0::/\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  write("cg/memory.max", "536870912\n");
  write("cg/memory.high", "402653184\n");
  write("cg/memory.current", "399507456\n");
  write("cg/memory.stat", "anon 1\nfile 2\ninactive_file 1048576\nactive_file 1048576\n");
  write("cg/memory.events", "low 0\nhigh 7\nmax 3\noom 0\noom_kill 0\n");
  write("cg/cpu.max", "50000 100000\n");
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 384 * MiB) << "memory.high comes first";
  GroupUsage usage;
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.limit, 384 * MiB);
  EXPECT_EQ(usage.bytes, 379 * MiB);
  EXPECT_EQ(usage.limit_events, 10u);
  EXPECT_EQ(cpu_quota(proc().c_str()), 1u);
  char path[MemoryGroup::kMaxPath];
  ASSERT_NE(memory.file_path("memory.pressure", path), nullptr);
  EXPECT_EQ(std::string(path), top_ + "/cg/memory.pressure");
}

TEST_F(Cgroup, TheTightestLevelOfTheHierarchyCounts) {
  write("proc/cgroup", "0::/kubepods/pod1/app\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  write("cg/kubepods/memory.max", "8589934592\n");
  write("cg/kubepods/pod1/memory.max", "1073741824\n");
  write("cg/kubepods/pod1/app/memory.max", "max\n");
  write("cg/kubepods/pod1/memory.current", "1048576\n");
  write("cg/kubepods/memory.current", "8589930496\n");
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 1 * GiB);
  GroupUsage usage;
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.limit, 8 * GiB) << "the one with the least room is read, also where it is wider";
  EXPECT_EQ(usage.level, 1u);
  write("cg/kubepods/memory.current", "1048576\n");
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.limit, 1 * GiB);
  EXPECT_EQ(usage.level, 0u);
  // Each reading sees a changed limit.
  write("cg/kubepods/pod1/memory.max", "536870912\n");
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.limit, 512 * MiB);
}

TEST_F(Cgroup, ManyLevelsKeepTheLeastLimits) {
  std::string path;
  for (int i = 0; i < 9; i++) {
    path += "/d" + std::to_string(i);
    write("cg" + path + "/memory.max", std::to_string((i * 4 % 9 + 1) * 100 * MiB) + "\n");
    write("cg" + path + "/memory.current", "0\n");
  }
  write("proc/cgroup", "0::" + path + "\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 100 * MiB);
  GroupUsage usage;
  ASSERT_TRUE(memory.read(&usage));
  EXPECT_EQ(usage.limit, 100 * MiB);
}

TEST_F(Cgroup, HybridHierarchiesHaveTheControllerInOne) {
  write("proc/cgroup", "4:memory:/a\n0::/b\n");
  write("proc/mountinfo", line("/", "/unified", kV2) + line("/", "/mem", kV1));
  write("mem/a/memory.limit_in_bytes", "67108864\n");
  write("unified/b/memory.max", "1048576\n");
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 64 * MiB);
}

TEST_F(Cgroup, NothingToSeeIsNoLimit) {
  MemoryGroup memory;
  GroupUsage usage;
  EXPECT_FALSE(memory.find("/nowhere"));
  EXPECT_FALSE(memory.read(&usage));
  EXPECT_EQ(cpu_quota("/nowhere"), 0u);
  write("proc/cgroup", "0::/a\n");
  EXPECT_FALSE(memory.find(proc().c_str())) << "no mountinfo";
  write("proc/mountinfo", line("/", "/mem", kV1));
  EXPECT_FALSE(memory.find(proc().c_str())) << "another hierarchy";
  write("proc/mountinfo", line("/", "/cg", kV2));
  EXPECT_FALSE(memory.find(proc().c_str())) << "no files";
  write("cg/a/memory.max", "max\n");
  EXPECT_FALSE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), SIZE_MAX);
  write("cg/a/memory.max", "1000000\n");
  EXPECT_TRUE(memory.find(proc().c_str()));
  EXPECT_FALSE(memory.read(&usage)) << "no memory.current";
  FailCalls refuse(SYS_openat, EPERM);
  EXPECT_FALSE(memory.find(proc().c_str()));
}

TEST_F(Cgroup, LongLinesAreLeftOut) {
  write("proc/cgroup", "0::/a\n");
  write("proc/mountinfo", "1 2 0:3 / /x rw - overlay overlay lowerdir=" + std::string(5000, 'l') +
                              "\n" + line("/", "/cg", kV2) + "9 9 0:9 / /y rw - tmpfs " +
                              std::string(3000, 'z'));
  write("cg/a/memory.max", "1048576");  // without a newline
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.limit(), 1 * MiB);
}

// An idle process does not search again: the files kept open show whether a search is worthwhile.
TEST_F(Cgroup, ALimitThatIsSetLaterIsSeen) {
  write("proc/cgroup", "0::/pod/app\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  write("cg/pod/memory.max", "1073741824\n");
  MemoryGroup memory;
  UsageFiles files;
  EXPECT_FALSE(files.limit_has_changed(memory)) << "nothing is known yet";
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.own_limit(), SIZE_MAX);
  EXPECT_FALSE(files.limit_has_changed(memory)) << "there are no files";
  write("cg/pod/app/memory.max", "max\n");
  write("cg/pod/app/memory.high", "max\n");
  EXPECT_FALSE(files.limit_has_changed(memory));
  write("cg/pod/app/memory.high", "104857600\n");
  EXPECT_TRUE(files.limit_has_changed(memory));
  ASSERT_TRUE(memory.find(proc().c_str()));
  EXPECT_EQ(memory.own_limit(), 100 * MiB);
  EXPECT_FALSE(files.limit_has_changed(memory));
  write("cg/pod/app/memory.max", "52428800\n");
  EXPECT_TRUE(files.limit_has_changed(memory));
  write("cg/pod/app/memory.max", "max\n");
  write("cg/pod/app/memory.high", "max\n");
  EXPECT_TRUE(files.limit_has_changed(memory)) << "it was taken away";
  files.close();

  write("proc/cgroup", "4:memory:/a\n");
  write("proc/mountinfo", line("/", "/mem", kV1));
  write("mem/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(memory.find(proc().c_str()));
  EXPECT_FALSE(files.limit_has_changed(memory));
  write("mem/a/memory.limit_in_bytes", "67108864\n");
  EXPECT_TRUE(files.limit_has_changed(memory));
  files.close();
}

// The helper thread's way to read: it neither disturbs nor is disturbed by a program that closes
// its descriptors or reuses their numbers.
TEST_F(Cgroup, OpenFilesAreCheckedBeforeReading) {
  write("proc/cgroup", "0::/pod/app\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  write("cg/pod/memory.max", "1073741824\n");
  write("cg/pod/memory.current", "104857600\n");
  write("cg/pod/app/memory.max", "536870912\n");
  write("cg/pod/app/memory.current", "52428800\n");
  MemoryGroup memory;
  ASSERT_TRUE(memory.find(proc().c_str()));
  ASSERT_EQ(memory.levels(), 2u);
  UsageFiles files;
  GroupUsage usage;
  EXPECT_FALSE(files.read(memory, &usage)) << "nothing is open yet";
  files.keep_open(memory);
  ASSERT_TRUE(files.read(memory, &usage));
  EXPECT_EQ(usage.limit, 512 * MiB);
  EXPECT_EQ(usage.bytes, 50 * MiB);
  EXPECT_EQ(usage.level, 0u);
  // Like the kernel's files: the number changes, the file stays.
  write("cg/pod/app/memory.current", "62914560\n");
  ASSERT_TRUE(files.read(memory, &usage));
  EXPECT_EQ(usage.bytes, 60 * MiB);
  write("cg/pod/memory.current", "1053741824\n");
  EXPECT_FALSE(files.read(memory, &usage)) << "near the limit of one";
  write("cg/pod/memory.stat", "anon 1\ninactive_file 629145600\nactive_file 104857600\n");
  ASSERT_TRUE(files.read(memory, &usage)) << "most of it is files'";
  EXPECT_EQ(usage.bytes, 60 * MiB);
  auto open_files = [&] {
    std::vector<int> numbers;
    for (auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code problem;
      std::filesystem::path target = std::filesystem::read_symlink(entry.path(), problem);
      if (target.string().starts_with(std::filesystem::canonical(top_).string()))
        numbers.push_back(std::stoi(entry.path().filename()));
    }
    return numbers;
  };
  EXPECT_EQ(open_files().size(), 3u);
  write("cg/pod/memory.current", "1048576\n");
  ASSERT_TRUE(files.read(memory, &usage));
  EXPECT_EQ(open_files().size(), 2u) << "memory.stat is closed when it is not needed";
  write("cg/pod/memory.current", "1053741824\n");
  ASSERT_TRUE(files.read(memory, &usage));
  write("cg/pod/memory.current", "1048576\n");
  std::vector<int> ours = open_files();
  ASSERT_EQ(ours.size(), 3u);
  write("program's own", "7\n");
  int own = open((top_ + "/program's own").c_str(), O_RDONLY);
  for (int fd : ours) {
    EXPECT_GE(fd, 256);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    dup2(own, fd);  // closes ours
  }
  EXPECT_FALSE(files.read(memory, &usage));
  files.keep_open(memory);
  ASSERT_TRUE(files.read(memory, &usage));
  EXPECT_EQ(usage.bytes, 60 * MiB);
  files.close();
  EXPECT_FALSE(files.read(memory, &usage));
  for (int fd : ours) {
    char c = 0;
    EXPECT_EQ(pread(fd, &c, 1, 0), 1) << "the program's are as it left them";
    EXPECT_EQ(c, '7');
    close(fd);
  }
  close(own);
}

TEST_F(Cgroup, MovedProcessReadsFilesOfTheNewGroup) {
  write("proc/cgroup", "0::/a\n");
  write("proc/mountinfo", line("/", "/cg", kV2));
  write("cg/a/memory.max", "1048576\n");
  write("cg/b/memory.max", "1048576\n");
  MemoryGroup before, after;
  ASSERT_TRUE(before.find(proc().c_str()));
  ASSERT_TRUE(after.find(proc().c_str()));
  EXPECT_TRUE(before.same_files(after));
  write("cg/a/memory.max", "2097152\n");
  ASSERT_TRUE(after.find(proc().c_str()));
  EXPECT_TRUE(before.same_files(after)) << "only the limit has changed";
  write("proc/cgroup", "0::/b\n");
  ASSERT_TRUE(after.find(proc().c_str()));
  EXPECT_FALSE(before.same_files(after));
}

TEST(CgroupHere, ReadingLeavesNoDescriptorOpen) {
  auto open_files = [] {
    int count = 0;
    for ([[maybe_unused]] auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count++;
    return count;
  };
  int before = open_files();
  MemoryGroup memory;
  GroupUsage usage;
  memory.find();
  memory.read(&usage);
  EXPECT_LE(cpu_count(), static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_GE(cpu_count(), 1u);
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace seemalloc::os
