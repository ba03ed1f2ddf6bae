// gperftools' profiling calls: their files, beside profiles that its variables have started.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/api/dumps/cpu_profile_runs.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/malloc/test_api.h"
#include "core/api/settings/foreign_options.h"
#include "core/base/option_for_test.h"
#include "core/base/units.h"
#include "core/compat/control_settings.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/profile/pprof/decoder_for_test.h"

extern "C" {
struct ProfilerState {
  int enabled;
  time_t start_time;
  char profile_name[1024];
  int samples_gathered;
};
void HeapProfilerStart(const char* prefix);
void HeapProfilerStop(void);
void HeapProfilerDump(const char* reason);
int IsHeapProfilerRunning(void);
char* GetHeapProfile(void);
int ProfilerStart(const char* path);
void ProfilerStop(void);
void ProfilerFlush(void);
int ProfilerGetStackTrace(void** result, int most, int skip, const void* ucontext);
void ProfilerGetCurrentState(ProfilerState* state);
}

namespace seemalloc::compat {
namespace {

namespace fs = std::filesystem;
using options::Id;
using options::OptionForTest;
using Names = std::set<std::string>;

class Profilers : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/gperftools_profilers_test.XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }
  // In the names the process id is replaced by PID.
  Names files() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  std::string start_of(const std::string& name) const {
    std::string line;
    std::ifstream file(in(name));
    std::getline(file, line);
    return line.substr(0, 13);
  }

  // The time between two interrupts: it identifies the profile in the file.
  uint64_t period_of(const std::string& name) const {
    std::ifstream file(in(name));
    return profile::decode(std::string(std::istreambuf_iterator<char>(file), {})).numbers[12];
  }

  std::string folder_;
};

void churn(size_t bytes) {
  for (size_t sum = 0; sum < bytes; sum += 64 * KiB) sm_free(sm_malloc(64 * KiB));
}

void ignore_message(const char*) {}

// Must be the first test: HEAPPROFILE is set at the process's start.
TEST_F(Profilers, HeapprofileVariableCanBeDumpedAndStopped) {
  std::string variable = "HEAPPROFILE=" + in("p");
  char* environment[] = {variable.data(), nullptr};
  EXPECT_EQ(IsHeapProfilerRunning(), 0);
  read_foreign_options(environment, ignore_message);
  EXPECT_EQ(IsHeapProfilerRunning(), 1);
  HeapProfilerStart(in("other").c_str());
  HeapProfilerDump("one");
  HeapProfilerDump("two");
  EXPECT_EQ(files(), (Names{"p.0001.heap", "p.0002.heap"}));
  HeapProfilerStop();
  EXPECT_EQ(IsHeapProfilerRunning(), 0);
  EXPECT_EQ(options::get(Id::dump_final), 0u);
  EXPECT_EQ(options::get(Id::dump_alloc_interval), 0u);
  HeapProfilerDump("three");
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(options::get(Id::sample), 512 * KiB) << "recording all would be in vain";
  HeapProfilerStart(in("again").c_str());
  EXPECT_EQ(options::get(Id::sample), 1u);
  HeapProfilerStop();
  EXPECT_EQ(options::get(Id::sample), 512 * KiB);
  set_option_to("dump_names", "seemalloc");
}

TEST_F(Profilers, NumbersContinueFromStartToStart) {
  std::string prefix = options::get_text(Id::dump_prefix);
  uint64_t form = options::get(Id::dump_names);
  size_t count = 0;
  for (int i = 0; i < 3; i++) {
    HeapProfilerStart(in("p").c_str());
    HeapProfilerDump("one");
    HeapProfilerStop();
    EXPECT_EQ(files().size(), ++count) << "each has a file of its own";
  }
  for (const std::string& name : files()) EXPECT_EQ(start_of(name), "heap profile:") << name;
  EXPECT_EQ(options::get_text(Id::dump_prefix), prefix) << "as before";
  EXPECT_EQ(options::get(Id::dump_names), form);
}

// MALLOC_CONF also has dumps written as text; the form follows the dump names.
TEST_F(Profilers, JemallocDumpsContinueAfterStop) {
  ASSERT_TRUE(set_option_to("dump_names", "jemalloc"));
  ASSERT_TRUE(set_option_to("dump_prefix", in("j").c_str()));
  auto starts = [this] {
    FixedText<kDumpPathBytes> path;
    EXPECT_EQ(dump_by_prefix(DumpReason::kRequested, path), 0);
    return start_of(fs::path(path.c_str()).filename()).substr(0, 8);
  };
  EXPECT_EQ(starts(), "heap_v2/");
  HeapProfilerStart(in("p").c_str());
  EXPECT_EQ(starts(), "heap pro");
  HeapProfilerStop();
  EXPECT_EQ(starts(), "heap_v2/");
  ASSERT_TRUE(set_option_to("dump_names", "seemalloc"));
  EXPECT_EQ(starts().find("heap"), std::string::npos) << "profile.proto";
  ASSERT_TRUE(set_option_to("dump_prefix", ""));
}

// Records each allocation, as HEAPPROFILE does, unless the user has chosen an interval. After the
// stop the interval is as before.
TEST_F(Profilers, AStartedOneRecordsEachAllocation) {
  auto in_use = [] {
    unsigned long long blocks = 0, bytes = 0;
    char* text = GetHeapProfile();
    EXPECT_EQ(sscanf(text, "heap profile: %llu: %llu ", &blocks, &bytes), 2) << text;
    sm_free(text);
    return std::pair{blocks, bytes};
  };
  set_option_to("sample", uint64_t{0});
  for (int i = 0; i < 2; i++) {
    HeapProfilerStart(in("p").c_str());
    EXPECT_EQ(options::get(Id::sample), 1u);
    auto before = in_use();
    std::vector<void*> held;
    for (int n = 0; n < 1000; n++) held.push_back(sm_malloc(512));
    auto after = in_use();
    EXPECT_EQ(after.first - before.first, 1000u);
    EXPECT_EQ(after.second - before.second, 512'000u);
    HeapProfilerStop();
    EXPECT_EQ(options::get(Id::sample), 0u);
    for (void* p : held) sm_free(p);
  }
  set_option_to("sample", uint64_t{64 * KiB});
  HeapProfilerStart(in("p").c_str());
  EXPECT_EQ(options::get(Id::sample), 64 * KiB);
  HeapProfilerStop();
  EXPECT_EQ(options::get(Id::sample), 64 * KiB);
  set_option_to("sample", uint64_t{512 * KiB});
}

// As gperftools documents it: profiles cover only allocations between start and stop.
TEST_F(Profilers, EarlierAllocationsAreNotInProfile) {
  constexpr size_t kBytes = 3072, kBlocks = 100;
  auto blocks_of_that_size = [] {
    char* text = GetHeapProfile();
    unsigned long long most = 0, blocks = 0, bytes = 0;
    for (const char* line = strchr(text, '\n'); line != nullptr; line = strchr(line + 1, '\n')) {
      if (sscanf(line, " %llu: %llu [", &blocks, &bytes) == 2 && blocks != 0 &&
          bytes / blocks == kBytes)
        most = std::max(most, blocks);
    }
    sm_free(text);
    return most;
  };
  set_option_to("sample", uint64_t{1});
  std::vector<void*> before, since;
  for (size_t n = 0; n < kBlocks; n++) before.push_back(sm_malloc(kBytes));
  for (int turn = 0; turn < 2; turn++) {
    HeapProfilerStart(in("p").c_str());
    EXPECT_EQ(blocks_of_that_size(), 0u) << turn;
    for (size_t n = 0; n < kBlocks / 2; n++) since.push_back(sm_malloc(kBytes));
    EXPECT_EQ(blocks_of_that_size(), kBlocks / 2) << turn;
    HeapProfilerStop();
  }
  for (void* p : before) sm_free(p);
  for (void* p : since) sm_free(p);
  set_option_to("sample", uint64_t{512 * KiB});
}

SEEMALLOC_NOINLINE int trace_of_caller(void** result, int most, int skip) {
  int depth = ProfilerGetStackTrace(result, most, skip, nullptr);
  __asm__ volatile("");
  return depth;
}

TEST_F(Profilers, AStackTraceBeginsWithTheCaller) {
  void* both[2][64];
  int depths[2];
  volatile int twice = 2;
  // One call site, so that the addresses are the same.
  for (int i = 0; i < twice; i++) depths[i] = trace_of_caller(both[i], 64, 2 * i);
  void **all = both[0], **rest = both[1];
  int depth = depths[0];
  ASSERT_GT(depth, 3);
  // In a library of its own our frames are left out; in this test they come first.
  auto is_caller = [begin = reinterpret_cast<uintptr_t>(&trace_of_caller)](void* pc) {
    return reinterpret_cast<uintptr_t>(pc) - begin < 200;
  };
  EXPECT_LT(std::find_if(all, all + depth, is_caller) - all, 4);
  EXPECT_EQ(depths[1], depth - 2);
  EXPECT_TRUE(std::equal(rest, rest + depths[1], all + 2));
  EXPECT_EQ(trace_of_caller(rest, 1, 0), 1);
  EXPECT_EQ(ProfilerGetStackTrace(rest, 0, 0, nullptr), 0);
  EXPECT_EQ(trace_of_caller(rest, 64, 1000), 0);
}

void* interrupted[4];
int interrupted_depth;
TEST_F(Profilers, SignalStackTraceStartsAtInterruptedCode) {
  struct sigaction action = {}, old = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t*, void* ucontext) {
    interrupted_depth = ProfilerGetStackTrace(interrupted, 4, 0, ucontext);
  };
  ASSERT_EQ(sigaction(SIGUSR2, &action, &old), 0);
  raise(SIGUSR2);
  sigaction(SIGUSR2, &old, nullptr);
  ASSERT_GT(interrupted_depth, 1);
  Dl_info at{};
  ASSERT_NE(dladdr(interrupted[0], &at), 0);
  EXPECT_NE(strstr(at.dli_fname, "libc"), nullptr) << at.dli_fname;
}

TEST_F(Profilers, StartedProfileDumpsAutomatically) {
  set_option_to("sample", uint64_t{1});
  churn(MiB);
  setenv("HEAP_PROFILE_ALLOCATION_INTERVAL", "1048576", 1);
  HeapProfilerStart(in("p").c_str());
  EXPECT_EQ(options::get(Id::dump_alloc_interval), 1 * MiB);
  EXPECT_EQ(options::get(Id::dump_inuse_interval), 100 * MiB);
  churn(4 * MiB);
  HeapProfilerStop();
  unsetenv("HEAP_PROFILE_ALLOCATION_INTERVAL");
  size_t count = files().size();
  EXPECT_GE(count, 3u);
  for (const std::string& name : files()) EXPECT_EQ(start_of(name), "heap profile:") << name;
  EXPECT_EQ(options::get(Id::dump_alloc_interval), 0u);
  churn(4 * MiB);
  EXPECT_EQ(files().size(), count);
  set_option_to("sample", uint64_t{512 * KiB});
}

TEST_F(Profilers, OneThatIsNotStoppedDumpsAtExit) {
  EXPECT_EXIT(
      {
        HeapProfilerStart(in("p").c_str());
        exit(0);
      },
      testing::ExitedWithCode(0), "");
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(start_of(*files().begin()), "heap profile:");
  EXPECT_EXIT(
      {
        HeapProfilerStart(in("p").c_str());
        HeapProfilerStop();
        exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Profilers, ALongPrefixIsRefusedAtTheStart) {
  testing::internal::CaptureStderr();
  HeapProfilerStart(std::string(300, 'x').c_str());
  EXPECT_EQ(IsHeapProfilerRunning(), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "HeapProfilerStart: expected a prefix of fewer than 256 bytes: xxx"),
            std::string::npos);
}

TEST_F(Profilers, APathIsTakenAsItIs) {
  ASSERT_EQ(ProfilerStart(in("50%n%p").c_str()), 1);
  ProfilerFlush();
  ProfilerStop();
  EXPECT_EQ(files(), Names{"50%n%p"});
  testing::internal::CaptureStderr();
  EXPECT_EQ(ProfilerStart((folder_ + "/" + std::string(600, 'x')).c_str()), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "ProfilerStart: expected a path of fewer than 512 bytes: /tmp/"),
            std::string::npos);
}

// An empty path means that no profile runs, so a profile with one could not be stopped.
TEST_F(Profilers, AnEmptyPathIsRefused) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ProfilerStart(""), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "seemalloc: ProfilerStart: expected a path, got an empty one\n");
  ProfilerState state;
  ProfilerGetCurrentState(&state);
  EXPECT_EQ(state.enabled, 0);
}

// Other calls may end the profile: its samples are written all the same. A profile that they start
// afterwards is theirs.
TEST_F(Profilers, OtherCallersProfilesAreLeftAlone) {
  ASSERT_EQ(ProfilerStart(in("p").c_str()), 1);
  ASSERT_EQ(seemalloc_cpu_stop(), 0);
  ProfilerStop();
  EXPECT_EQ(files(), Names{"p"});
  fs::remove(in("p"));
  ASSERT_EQ(ProfilerStart(in("p").c_str()), 1);
  ASSERT_EQ(seemalloc_cpu_stop(), 0);
  ASSERT_EQ(seemalloc_cpu_start(500), 0);
  testing::internal::CaptureStderr();
  ProfilerFlush();
  ProfilerStop();
  std::string line = "seemalloc: CPU profile " + in("p") +
                     ": another caller ended it and started a new one; the profile is lost\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), line + line);
  EXPECT_EQ(files(), Names{});
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 1);
  EXPECT_EQ(seemalloc_cpu_stop(), 0);
}

TEST_F(Profilers, CpuprofileVariableCanBeFlushedAndStopped) {
  testing::internal::CaptureStderr();
  ASSERT_EQ(ProfilerStart(in("before").c_str()), 1);
  ProfilerStop();
  fs::remove(in("before"));
  // Real time, because the state has the second of the wall clock, which is not simulated: a start
  // time left from the profile before would be of an earlier second.
  time_t second = time(nullptr);
  wait_until([second] { return time(nullptr) != second; }, "the next second");
  time_t begin = time(nullptr);
  setenv("CPUPROFILE", in("50%n").c_str(), 1);
  ASSERT_TRUE(start_cpu_run());
  EXPECT_EQ(ProfilerStart(in("other").c_str()), 0);
  ProfilerFlush();
  EXPECT_EQ(files(), Names{"50%n"});
  fs::remove(in("50%n"));
  ProfilerState state;
  ProfilerGetCurrentState(&state);
  EXPECT_EQ(state.enabled, 1);
  EXPECT_EQ(state.profile_name, in("50%n"));
  EXPECT_GE(state.start_time, begin);
  EXPECT_LE(state.start_time, time(nullptr));
  ProfilerStop();
  EXPECT_EQ(files(), Names{"50%n"});
  ProfilerGetCurrentState(&state);
  EXPECT_EQ(state.enabled, 0);
  EXPECT_EQ(ProfilerStart(in("other").c_str()), 1) << "it is free again";
  ProfilerStop();
  EXPECT_EQ(files(), (Names{"50%n", "other"}));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("PROFILE: interrupts/evictions/bytes = "), std::string::npos) << said;
}

TEST_F(Profilers, ChildrenOfCPUPROFILEPutTheirIdBehind) {
  testing::internal::CaptureStderr();
  std::string own = "p_" + std::to_string(getpid()), marked = in("p");
  setenv("CPUPROFILE", in("p").c_str(), 1);
  setenv("CPUPROFILE_USE_PID", "1", 1);
  ASSERT_TRUE(start_cpu_run());
  ProfilerStop();
  EXPECT_EQ(files(), Names{own});
  unsetenv("CPUPROFILE_USE_PID");
  fs::remove(in(own));
  marked[0] = static_cast<char>(marked[0] | 0x80);
  setenv("CPUPROFILE", marked.c_str(), 1);
  ASSERT_TRUE(start_cpu_run());
  ProfilerStop();
  EXPECT_EQ(files(), Names{own}) << "gperftools 2.10's mark";
  testing::internal::GetCapturedStderr();
}

TEST_F(Profilers, CPUPROFILEIsCheckedAtTheStart) {
  auto refused = [](const char* says) {
    testing::internal::CaptureStderr();
    start_cpu_run();
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(says), std::string::npos) << said;
    ProfilerState state;
    ProfilerGetCurrentState(&state);
    EXPECT_EQ(state.enabled, 0);
  };
  setenv("CPUPROFILE", in("p").c_str(), 1);
  setenv("CPUPROFILESIGNAL", "12", 1);
  OptionForTest helper(Id::helper, "0");
  refused("CPUPROFILESIGNAL: no helper thread handles the signal (helper:0); ignored");
  unsetenv("CPUPROFILESIGNAL");
  setenv("CPUPROFILE", (folder_ + "/" + std::string(600, 'x')).c_str(), 1);
  refused("CPUPROFILE: ignored, expected a path of fewer than 480 bytes: /tmp/");
  unsetenv("CPUPROFILE");
}

// Delays a thread that releases a lock for which another thread waits, until another thread has
// made a system call, so that the other one goes first. Bounded: all others may wait for this
// thread.
std::atomic<unsigned> other_calls{0};
long yield_to_other_threads(long number) {
  if (number != SYS_futex) return other_calls++, 0;
  unsigned seen = other_calls;
  for (int i = 0; i < 20 && other_calls == seen; i++) std::this_thread::yield();
  return 0;
}

// After a profile is ended and before it is written, no other profile replaces it: each file has
// the profile of its requester.
TEST_F(Profilers, SignalsAndCallsDoNotGetEachOthersProfiles) {
  testing::internal::CaptureStderr();
  setenv("CPUPROFILE", in("signal").c_str(), 1);
  setenv("CPUPROFILESIGNAL", std::to_string(SIGUSR2).c_str(), 1);
  setenv("CPUPROFILE_FREQUENCY", "500", 1);
  ASSERT_TRUE(start_cpu_run());
  std::atomic<bool> over{false};
  std::thread signals([&] {
    while (!over) {
      raise(SIGUSR2);
      handle_cpu_signal();
    }
    stop_cpu_run();
  });
  os::fault_hook = yield_to_other_threads;
  unsigned own = 0, others = 0;
  // Two seconds, or longer on a busy machine, until a start has succeeded.
  uint64_t end = os::monotonic_ns() + 2 * kSecondNs;
  while (os::monotonic_ns() < (own != 0 ? end : end + 120 * kSecondNs)) {
    if (ProfilerStart(in("own").c_str()) == 0) continue;
    ProfilerStop();
    uint64_t period = period_of("own");
    EXPECT_EQ(period, 10 * kMillisecondNs) << "after " << own;
    if (period != 10 * kMillisecondNs) break;
    own++;
  }
  os::fault_hook = nullptr;
  over = true;
  signals.join();
  fs::remove(in("own"));
  for (const std::string& name : files()) {
    EXPECT_EQ(period_of(name), 2 * kMillisecondNs) << name;
    others++;
  }
  EXPECT_GT(own, 0u);
  EXPECT_GT(others, 0u);
  for (const char* name : {"CPUPROFILE", "CPUPROFILESIGNAL", "CPUPROFILE_FREQUENCY"})
    unsetenv(name);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("it is lost"), std::string::npos);
}

}  // namespace
}  // namespace seemalloc::compat
