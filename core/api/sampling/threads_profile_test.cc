// Memory by thread: the profile "threads" of programs with threads that start, end, are renamed,
// fork, and are too many.
#include <gtest/gtest.h>
#include <pthread.h>
#include <seemalloc/seemalloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/api/dumps/profile_kinds.h"
#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc {
namespace {

std::string take(const char* kind) {
  ProfileBytes taken{};
  if (!find_profile_kind(kind)->collect(&taken)) return "";
  std::string bytes(taken.data, taken.bytes);
  release_profile(taken);
  return bytes;
}

struct Held {
  int64_t objects = 0, bytes = 0;
  std::string tid;
};
// By thread name.
std::map<std::string, Held> held() {
  std::map<std::string, Held> found;
  std::string bytes = take("threads");
  EXPECT_EQ(profile::decode(bytes).types,
            (std::vector<std::string>{"inuse_objects/count", "inuse_space/bytes"}));
  for (const profile::DecodedRow& row : profile::rows_of(bytes)) {
    Held& one = found[row.labels.at("thread")];
    one.objects += row.values[0];
    one.bytes += row.values[1];
    if (row.labels.count("tid") != 0) one.tid = row.labels.at("tid");
  }
  return found;
}

void call_myself(const std::string& name) { pthread_setname_np(pthread_self(), name.c_str()); }

class ThreadsProfile : public testing::Test {
 protected:
  void SetUp() override {
    call_myself("main");
    ASSERT_EQ(seemalloc_profile_start(1), 0);
  }
  void TearDown() override { seemalloc_profile_start(0); }
};

TEST_F(ThreadsProfile, AttributesBytesToThreads) {
  std::map<std::string, Held> before = held();
  std::vector<void*> blocks;
  Progress step;
  std::string tid;
  std::thread worker([&] {
    for (int i = 0; i < 100; i++) blocks.push_back(sm_malloc(1000));
    call_myself("named late");
    tid = std::to_string(gettid());
    step.advance();
    step.wait_for(2);
    call_myself("at the end");
  });
  step.wait_for(1);
  void* own = sm_malloc(5000);
  std::map<std::string, Held> now = held();
  EXPECT_EQ(now["named late"].objects, 100);
  EXPECT_EQ(now["named late"].bytes, 100 * 1024);
  EXPECT_EQ(now["named late"].tid, tid);
  EXPECT_EQ(now["main"].objects - before["main"].objects, 1);
  EXPECT_EQ(now["main"].tid, std::to_string(gettid()));
  step.advance();
  worker.join();
  now = held();
  EXPECT_EQ(now["at the end"].objects, 100) << "of a thread that has ended";
  EXPECT_EQ(now["at the end"].tid, tid);
  for (void* block : blocks) sm_free(block);
  sm_free(own);
  now = held();
  EXPECT_EQ(now.count("at the end"), 0u);
}

// Sampled, with threads at work: the sums are those of the heap profile, row by row and thread by
// thread.
TEST_F(ThreadsProfile, AddsUpToTheHeapProfile) {
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(seed);
  ASSERT_EQ(seemalloc_profile_start(4096), 0);
  std::vector<std::vector<void*>> blocks(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < blocks.size(); t++) {
    threads.emplace_back([&, t] {
      call_myself("worker" + std::to_string(t));
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < 20000; i++) {
        if (random() % 3 == 0 && !blocks[t].empty()) {
          sm_free(blocks[t].back());
          blocks[t].pop_back();
        } else {
          blocks[t].push_back(sm_malloc(random() % 3000));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  using Key = std::pair<std::vector<uint64_t>, std::string>;  // stack and size
  std::map<Key, int64_t> by_thread, whole;
  int64_t rows = 0;
  for (const profile::DecodedRow& row : profile::rows_of(take("threads"))) {
    by_thread[{row.stack, row.labels.at("bytes")}] += row.values[1];
    rows++;
  }
  for (const profile::DecodedRow& row : profile::rows_of(take("heap"))) {
    if (row.values[3] != 0) whole[{row.stack, row.labels.at("bytes")}] += row.values[3];
  }
  ASSERT_EQ(by_thread.size(), whole.size());
  EXPECT_GT(rows, static_cast<int64_t>(whole.size())) << "several threads at one stack and size";
  for (const auto& [key, bytes] : whole)
    EXPECT_NEAR(static_cast<double>(by_thread[key]), static_cast<double>(bytes), 4)
        << "each row is rounded";
  for (auto& list : blocks) {
    for (void* block : list) sm_free(block);
  }
}

// More threads than can be distinguished, none of which holds anything: their numbers are recycled.
TEST_F(ThreadsProfile, RecyclesNumbersOfEmptyThreads) {
  for (uint32_t i = 0; i < profile::ThreadTable::kMaxThreads + 500; i++)
    std::thread([] { sm_free(sm_malloc(100)); }).join();
  void* block = nullptr;
  std::thread([&] {
    call_myself("the last one");
    block = sm_malloc(100);
  }).join();
  EXPECT_EQ(held()["the last one"].objects, 1);
  sm_free(block);
}

TEST_F(ThreadsProfile, TooManyThreadsAreTheOthers) {
  constexpr uint32_t kMore = 300;
  std::vector<void*> blocks(profile::ThreadTable::kMaxThreads + kMore);
  for (void*& block : blocks) std::thread([&] { block = sm_malloc(100); }).join();
  Held others = held()["(other threads)"];
  EXPECT_GE(others.objects, kMore);
  EXPECT_LE(others.objects, kMore + 5)
      << "the main thread and threads of other tests have numbers too";
  EXPECT_EQ(others.tid, "");
  bool said = false;
  for (const std::string& comment : profile::decode(take("threads")).comments) {
    said = said || comment.find("; " + std::to_string(others.objects) +
                                " samples are of (other threads)") != std::string::npos;
  }
  EXPECT_TRUE(said);
  // For frees each is still a thread of its own.
  std::string lives = take("remote");
  std::thread([] { sm_free(sm_malloc(100)); }).join();
  EXPECT_EQ(profile::rows_of(take("remote")).size(), profile::rows_of(lives).size())
      << "its own block";
  for (void* block : blocks) sm_free(block);
  os::advance_test_clock(1100 * kMillisecondNs);  // recycling was not worthwhile for the last ones
  void* block = nullptr;
  std::thread([&] {
    call_myself("has a number");
    block = sm_malloc(100);
  }).join();
  std::map<std::string, Held> now = held();
  EXPECT_EQ(now["has a number"].objects, 1);
  EXPECT_EQ(now.count("(other threads)"), 0u);
  sm_free(block);
}

TEST_F(ThreadsProfile, ForkedChildKnowsThreadsOfParent) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer allows no threads after a fork";
#endif
  void* others = nullptr;
  Progress ready, stop;
  std::string tid;
  std::thread worker([&] {
    call_myself("stays behind");
    others = sm_malloc(100);
    tid = std::to_string(gettid());
    ready.advance();
    stop.wait_for(1);
  });
  ready.wait_for(1);
  void* own = sm_malloc(200);
  pid_t child = fork();
  if (child == 0) {
    std::map<std::string, Held> now = held();
    if (now["stays behind"].objects != 1 || now["stays behind"].tid != tid) _exit(1);
    if (now["main"].tid != std::to_string(getpid())) _exit(2);
    void* block = nullptr;
    std::thread([&] {
      call_myself("of the child");
      block = sm_malloc(100);
    }).join();
    now = held();
    if (now["of the child"].objects != 1 || now["stays behind"].objects != 1) _exit(3);
    sm_free(block);
    sm_free(others);
    now = held();
    _exit(now.count("of the child") == 0 && now.count("stays behind") == 0 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  stop.advance();
  worker.join();
  sm_free(own);
  sm_free(others);
}

TEST_F(ThreadsProfile, IsRefusedWithMemory) {
  void* block = sm_malloc(100);
  {
    os::FailCalls refuse(SYS_mmap, 12);
    EXPECT_EQ(take("threads"), "");
  }
  EXPECT_NE(take("threads"), "");
  sm_free(block);
}

// Profiles are taken while threads start, allocate for each other, and end.
TEST_F(ThreadsProfile, CanBeTakenAtAnyTime) {
  std::atomic<bool> stop{false};
  std::atomic<void*> between{nullptr};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&] {
      while (!stop) {
        std::thread([&] {
          for (int i = 0; i < 200; i++) sm_free(between.exchange(sm_malloc(64)));
        }).join();
      }
    });
  }
  // Not by its name: that call also counts live blocks, by reading data that threads are writing.
  for (int i = 0; i < 50; i++) {
    profile::Buffer buffer;
    ASSERT_TRUE(profile::heap_profile_to_buffer(&buffer, 1, profile::Kind::kThreads));
    os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  sm_free(between.exchange(nullptr));
}

}  // namespace
}  // namespace seemalloc
