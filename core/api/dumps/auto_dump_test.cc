// Automatic dumps through the malloc family, into a directory: without a helper thread (this
// program has none until the last tests), with files that cannot be written, in a forked child, and
// a random run against a model of the expected files.
#include "core/api/dumps/auto_dump.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/dump_ring.h"
#include "core/api/helper/helper.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"

namespace seemalloc {
namespace {

namespace fs = std::filesystem;
using options::Id;

void set(const char* name, const std::string& value) {
  FixedText<256> problem;
  ASSERT_EQ(set_option(name, strlen(name), value.c_str(), problem), SetOption::kDone)
      << problem.c_str();
}

// Allocates and frees this many bytes, all of them sampled, in blocks of 64 KiB.
constexpr size_t kEach = 64 * KiB;
void churn(size_t bytes) {
  for (size_t sum = 0; sum < bytes; sum += kEach) sm_free(sm_malloc(kEach));
}

template <typename F>
bool within_seconds(double seconds, F done) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Waits until the helper thread has written, and counted, all requested dumps.
bool quiet() {
  return within_seconds(300, [] { return !dump_is_pending(); });
}

class AutoDump : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/auto_dump_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    set("dump_prefix", folder_ + "/d");
    set("sample", "1");
    churn(MiB);  // distances drawn before are used up
  }
  void TearDown() override {
    for (const char* name : {"dump_alloc_interval", "dump_inuse_interval", "dump_growth_interval",
                             "dump_time_interval", "dump_on_failure", "dump_keep", "heap_limit"}) {
      set(name, "0");
    }
    set("sample", "512K");
    if (!helper_is_running()) churn(MiB);
    EXPECT_TRUE(quiet());
    fs::remove_all(folder_);
  }
  std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path());
    return found;
  }
  // The numbers of the existing dumps.
  std::set<unsigned> numbers() const {
    std::set<unsigned> found;
    for (const std::string& file : files()) {
      unsigned number = 0;
      EXPECT_EQ(sscanf(file.c_str() + folder_.size(), "/d.%*d.%u.", &number), 1) << file;
      found.insert(number);
    }
    return found;
  }
  // Since the last call.
  DumpStatistics counted() {
    DumpStatistics now = dump_statistics(), before = before_;
    before_ = now;
    return {now.written - before.written, now.failed - before.failed, now.removed - before.removed,
            now.joined - before.joined, now.last_error};
  }

  std::string folder_;
  DumpStatistics before_ = dump_statistics();
};

// ---- without a helper thread: the allocating thread writes ----

TEST_F(AutoDump, EveryNBytesAllocated) {
  set("dump_alloc_interval", "1M");
  churn(10 * MiB);
  EXPECT_EQ(counted().written, 10u);
  EXPECT_EQ(files().size(), 10u);
  for (const std::string& file : files()) {
    EXPECT_GT(fs::file_size(file), 100u);
    EXPECT_NE(file.find(".heap.pb"), std::string::npos) << file;
  }
  set("dump_alloc_interval", "0");
  churn(10 * MiB);
  EXPECT_EQ(counted().written, 0u);
}

TEST_F(AutoDump, EveryNBytesOfHeapGrowth) {
  set("dump_growth_interval", "4M");
  std::vector<void*> blocks;
  auto fill = [&blocks] {
    for (int i = 0; i < 24 * 16; i++) blocks.push_back(sm_malloc(kEach));
    for (void* p : blocks) sm_free(p);
    blocks.clear();
  };
  fill();
  uint64_t dumps = counted().written;
  EXPECT_GE(dumps, 4u);
  EXPECT_LE(dumps, 6u);
  fill();
  EXPECT_EQ(counted().written, 0u) << "as large as before";
}

// By the bytes in use, exact to the block: not by the heap's memory from the OS, and not again
// after a decrease.
TEST_F(AutoDump, EveryNBytesAboveTheLivePeak) {
  set("dump_inuse_interval", "1M");
  std::vector<void*> blocks;
  auto keep = [&blocks](size_t bytes, size_t each) {
    for (size_t sum = 0; sum < bytes; sum += each) blocks.push_back(sm_malloc(each));
  };
  auto free_all = [&blocks] {
    for (void* p : blocks) sm_free(p);
    blocks.clear();
  };
  keep(10 * MiB + kEach, kEach);
  EXPECT_EQ(counted().written, 10u);
  free_all();
  keep(10 * MiB + kEach, kEach);
  churn(20 * MiB);
  EXPECT_EQ(counted().written, 0u) << "no more than at the peak";
  // One block in eight stays and pins its span: blocks of another size need memory of their own.
  std::vector<void*> pins;
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 8 == 0)
      pins.push_back(blocks[i]);
    else
      sm_free(blocks[i]);
  }
  blocks.clear();
  keep(8 * MiB, MiB);
  EXPECT_EQ(counted().written, 0u) << "the heap has grown, the bytes in use have not";
  keep(2 * MiB, MiB);
  EXPECT_EQ(counted().written, 1u);
  free_all();
  for (void* p : pins) sm_free(p);
}

TEST_F(AutoDump, RemovesOnlyItsOwnOldFiles) {
  set("dump_keep", "3");
  set("dump_alloc_interval", "1M");
  churn(1 * MiB);
  std::set<unsigned> first = numbers();
  ASSERT_EQ(first.size(), 1u);
  churn(5 * MiB);
  unsigned newest = *first.begin() + 5;
  EXPECT_EQ(numbers(), (std::set<unsigned>{newest - 2, newest - 1, newest}));
  EXPECT_EQ(counted().removed, 3u);
  std::set<std::string> last = files();
  // A user replaces one dump by another file, and removes another dump.
  std::string theirs = *last.begin(), gone = *last.rbegin();
  // Written before the dumps are removed, so that it does not get one of their inodes.
  std::ofstream(theirs + ".new") << "mine";
  fs::remove(theirs);
  fs::remove(gone);
  fs::rename(theirs + ".new", theirs);
  churn(5 * MiB);
  EXPECT_EQ(counted().removed, 1u + 2u);
  EXPECT_EQ(files().size(), 3u + 1u);
  EXPECT_TRUE(fs::exists(theirs));
  // A requested dump is kept.
  FixedText<kDumpPathBytes> path;
  EXPECT_EQ(dump_by_prefix(DumpReason::kRequested, path), 0);
  set("dump_keep", "1");
  churn(2 * MiB);
  EXPECT_EQ(files().size(), 1u + 1u + 1u);
  EXPECT_TRUE(fs::exists(path.c_str()));
}

TEST_F(AutoDump, WaitsForTheLockAndIsMerged) {
  set("dump_alloc_interval", "1M");
  count_held(+1);  // a signal handler that has interrupted one of our critical sections
  churn(3 * MiB);
  DumpStatistics d = counted();
  EXPECT_EQ(d.written, 0u);
  EXPECT_EQ(d.joined, 2u) << "of three that were due";
  count_held(-1);
  churn(kEach);
  EXPECT_EQ(counted().written, 1u) << "the requested dump is written later";
}

TEST_F(AutoDump, RequestedBySignalWithoutHelper) {
  set("dump_alloc_interval", "1G");
  request_dump(DumpReason::kSignal);
  EXPECT_EQ(counted().written, 0u) << "never in the handler";
  churn(kEach);
  EXPECT_EQ(counted().written, 1u);
}

TEST_F(AutoDump, WhenAnAllocationFails) {
  set("dump_on_failure", "1");
  set("heap_limit", "256M");
  errno = 0;
  EXPECT_EQ(sm_malloc(GiB), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(counted().written, 1u);
  EXPECT_EQ(sm_malloc(GiB), nullptr);
  EXPECT_EQ(counted().written, 0u) << "at most one in 10 s";
  void* p = sm_malloc(MiB);
  EXPECT_EQ(sm_realloc(p, GiB), nullptr);
  sm_free(p);
}

// ---- files that cannot be written ----

TEST_F(AutoDump, FailuresAreCountedAndReportedOnce) {
  set("dump_alloc_interval", "1M");
  std::string missing = folder_ + "/there/is/none";
  set("dump_prefix", missing);
  testing::internal::CaptureStderr();
  churn(5 * MiB);
  std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed.find("seemalloc: heap profile " + missing + "."), 0u) << printed;
  EXPECT_NE(printed.find("could not be written (errno 2)"), std::string::npos) << printed;
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
  DumpStatistics d = counted();
  EXPECT_EQ(d.failed, 5u);
  EXPECT_EQ(d.written, 0u);
  EXPECT_EQ(d.last_error, ENOENT);
  ProfileBytes profile{};
  ASSERT_TRUE(heap_profile(&profile)) << "a profile in memory is still available";
  os::unmap(profile.data, profile.mapped_bytes, os::Reason::kReport);
}

TEST_F(AutoDump, EachCallMayBeRefused) {
  set("dump_alloc_interval", "1M");
  set("dump_keep", "2");
  const struct {
    long call;
    int error;
  } kCalls[] = {
      {SYS_openat, EROFS}, {SYS_write, ENOSPC}, {SYS_write, EDQUOT}, {SYS_renameat2, EACCES}};
  for (const auto& c : kCalls) {
    os::FailCalls refuse(c.call, c.error);
    churn(4 * MiB);
    EXPECT_EQ(refuse.refusals() == 0, false);
    DumpStatistics d = counted();
    EXPECT_EQ(d.failed, 4u) << c.call;
    EXPECT_EQ(d.last_error, c.error) << c.call;
    EXPECT_TRUE(files().empty()) << c.call << " left " << *files().begin();
  }
  churn(4 * MiB);
  EXPECT_EQ(counted().written, 4u);
  EXPECT_EQ(files().size(), 2u);
  // Nothing can be removed; the owner of the files cannot be checked.
  for (long call : {SYS_unlinkat, SYS_statx}) {
    os::FailCalls refuse(call, EPERM);
    churn(4 * MiB);
    EXPECT_EQ(counted().written, 4u);
  }
  os::FailCalls refuse(SYS_mmap, ENOMEM);
  churn(4 * MiB);
  DumpStatistics d = counted();
  EXPECT_EQ(d.failed, 4u);
  EXPECT_EQ(d.last_error, ENOMEM);
}

TEST_F(AutoDump, WritesDirectlyToSpecialFiles) {
  EXPECT_EQ(dump_heap_profile("/dev/null"), 0);
  struct stat status {};
  stat("/dev/null", &status);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  std::string fifo = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(dump_heap_profile(fifo.c_str()), -ENXIO) << "the pipe has no reader";
  std::string got;
  std::thread reader([&] {
    std::ifstream in(fifo, std::ios::binary);
    got.assign(std::istreambuf_iterator<char>(in), {});
  });
  while (dump_heap_profile(fifo.c_str()) == -ENXIO) std::this_thread::yield();
  reader.join();
  EXPECT_GT(got.size(), 100u);
  EXPECT_EQ(dump_heap_profile(folder_.c_str()), -EISDIR);
}

// ---- fork ----

TEST_F(AutoDump, TheChildLeavesItsParentsFiles) {
  set("dump_keep", "2");
  set("dump_alloc_interval", "1M");
  churn(2 * MiB);
  std::set<std::string> ours = files();
  ASSERT_EQ(ours.size(), 2u);
  pid_t child = fork();
  if (child == 0) {
    reset_dumps_in_child();  // as the library's fork handler does; the test build also has it
    churn(5 * MiB);
    _exit(dump_statistics().removed - before_.removed == 3 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files().size(), 4u);
  for (const std::string& file : ours) EXPECT_TRUE(fs::exists(file)) << file;
}

// ---- random ----

// Bytes are allocated, the interval and the bound change, calls are refused. The number of dumps
// equals the model's; on disk are the dumps that were written and not removed, at most the bound,
// and no partial file.
TEST_F(AutoDump, RandomRunAgainstAModel) {
  std::mt19937 random(seed_for_test());
  uint64_t interval = 0, due = UINT64_MAX, total = 0, dumps = 0, attempts = 0, written = 0,
           removed = 0;
  unsigned keep = 0;
  size_t unbounded = 0;
  const long kRefused[] = {SYS_openat, SYS_write, SYS_renameat2};
  for (int step = 0; step < 600; step++) {
    if (random() % 20 == 0) {
      interval = random() % 4 == 0 ? 0 : (1 + random() % 32) * kEach;
      set("dump_alloc_interval", std::to_string(interval));
      due = interval != 0 ? total + interval : UINT64_MAX;
    }
    if (random() % 30 == 0) {
      keep = 1 + random() % 8;
      set("dump_keep", std::to_string(keep));
    }
    {
      os::FailCalls refuse(kRefused[random() % 3], ENOSPC, random() % 4 == 0 ? 1 : 1000000);
      for (unsigned i = random() % 16; i > 0; i--) {
        churn(kEach);
        if (interval != 0 && (total += kEach) >= due) dumps++, due = total + interval;
      }
    }
    DumpStatistics d = counted();
    attempts += d.written + d.failed;
    ASSERT_EQ(d.joined, 0u) << "step " << step;
    written += d.written;
    removed += d.removed;
    ASSERT_EQ(attempts, dumps) << "step " << step;
    ASSERT_EQ(files().size(), written - removed) << "step " << step;
    // Dumps from before there was a bound are not managed any more.
    if (keep == 0) unbounded = files().size();
    if (d.written != 0 && keep != 0) ASSERT_LE(files().size(), unbounded + keep) << "step " << step;
  }
  EXPECT_GT(written, 20u);
  EXPECT_GT(attempts, written);
}

// ---- exit where no lock can be taken ----

// A signal handler may have interrupted this thread, which will not continue. The exit must not
// wait for a lock that it holds.
TEST_F(AutoDump, ExitInsideTheAllocatorWritesNothing) {
  auto ends = [&](const char* option) {
    alarm(20);
    if (option != nullptr) set(option, folder_ + "/at_exit");
    heap::registry_lock().lock();
    exit(0);
  };
  const char* printed =
      "seemalloc: exit was called in a signal handler that interrupted the allocator: files requested at exit";
  for (const char* option : {"stats_at_exit", "dump_at_exit"})
    EXPECT_EXIT(ends(option), testing::ExitedWithCode(0), printed);
  EXPECT_EXIT(ends(nullptr), testing::ExitedWithCode(0), "^$");
  EXPECT_EQ(files().size(), 0u);
}

// ---- with a helper thread ----

bool has_helper() {
  FixedText<64> problem;
  if (!options::set(Id::helper, "1", 1, problem)) return false;
  churn(kEach);
  for (int i = 0; i < 100 && !helper_is_running(); i++) sm_free(sm_malloc(4 * MiB));
  return helper_is_running();
}

TEST_F(AutoDump, HelperWritesAtOnceAndWhileTheProcessIsIdle) {
  if (!has_helper()) GTEST_SKIP() << "no helper thread can be started";
  set("dump_alloc_interval", "1M");
  churn(MiB);
  EXPECT_TRUE(within_seconds(300, [&] { return counted().written != 0; }));
  set("dump_alloc_interval", "0");
  set("dump_time_interval", "1");
  EXPECT_TRUE(within_seconds(300, [&] { return counted().written != 0; })) << "idle";
  set("dump_time_interval", "0");
  EXPECT_TRUE(quiet());
  uint64_t before = dump_statistics().written;
  // Several threads together, faster than any disk: dumps are written one at a time, and
  // completely.
  set("dump_keep", "4");
  set("dump_alloc_interval", "64K");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) threads.emplace_back([] { churn(64 * MiB); });
  for (std::thread& thread : threads) thread.join();
  set("dump_alloc_interval", "0");
  EXPECT_TRUE(quiet());
  EXPECT_GT(dump_statistics().written, before);
  EXPECT_LE(dump_statistics().written - before, 4 * 64 * MiB / kEach);
  for (const std::string& file : files()) EXPECT_EQ(file.find(".tmp."), std::string::npos) << file;
}

// No thread waits for the helper thread: each dump that becomes due is a file of its own or has
// joined one, so there are never too many.
TEST_F(AutoDump, RequestsJoinAPendingDump) {
  if (!has_helper()) GTEST_SKIP() << "no helper thread can be started";
  counted();
  set("dump_alloc_interval", "10M");
  churn(200 * MiB);
  EXPECT_TRUE(quiet());
  DumpStatistics d = counted();
  EXPECT_GE(d.written, 1u);
  EXPECT_EQ(d.written + d.joined, 20u);
  EXPECT_EQ(files().size(), d.written);
}

}  // namespace
}  // namespace seemalloc

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // No helper thread until a test needs one.
  seemalloc::FixedText<64> problem;
  if (!seemalloc::options::set(seemalloc::options::Id::helper, "0", 1, problem)) return 1;
  return RUN_ALL_TESTS();
}
