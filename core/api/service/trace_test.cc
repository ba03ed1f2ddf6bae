// A trace shows each call of the allocator once, with its cause; it ends automatically, and is not
// inherited.
#include "core/api/service/trace.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

// readers belong to one thread: here to the test's.
#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/service/event_ring.h"
#include "core/base/option_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"

namespace seemalloc {
namespace {

struct Line {
  uint64_t time, bytes, took;
  std::string call, reason, size_class, frames;
  unsigned thread;
  bool refused;
};

struct Answer {
  std::vector<Line> lines;
  uint64_t lost = 0, dropped = 0;
  bool more = false;

  std::vector<Line> with(const std::string& call, const std::string& reason) const {
    std::vector<Line> found;
    for (const Line& line : lines) {
      if (line.call == call && line.reason == reason) found.push_back(line);
    }
    return found;
  }
};

bool read(unsigned reader, Answer* answer) {
  static char buffer[kTraceTextBytes];
  Text text(buffer, sizeof(buffer));
  if (!read_trace(reader, text)) return false;
  EXPECT_FALSE(text.truncated());
  *answer = Answer{};
  std::istringstream in(text.c_str());
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Line l;
    if (line.rfind("lost ", 0) == 0) {
      std::string word;
      EXPECT_TRUE(words >> word >> answer->lost >> word >> answer->dropped >> word >> answer->more)
          << line;
      continue;
    }
    EXPECT_TRUE(words >> l.time >> l.call >> l.reason >> l.bytes >> l.took >> l.thread >>
                l.size_class >> l.refused >> l.frames)
        << line;
    answer->lines.push_back(l);
  }
  return true;
}

unsigned start() {
  unsigned reader = 0;
  EXPECT_EQ(start_trace(&reader), TraceStart::kStarted);
  return reader;
}

// A block larger than those that the tests free, which otherwise would be cached. Not allocated
// before the tests begin: until then a large block starts the helper thread.
class Heavier : public testing::Environment {
  void* block_ = nullptr;

  void SetUp() override {
    block_ = sm_malloc(200 * MiB);
    ASSERT_NE(block_, nullptr);
  }
  void TearDown() override { sm_free(block_); }
};
const testing::Environment* const heavier = testing::AddGlobalTestEnvironment(new Heavier);

bool tracing() { return os::call_hook.load() != nullptr; }

__attribute__((noinline)) void take_and_give(size_t bytes) {
  sm_free(sm_malloc(bytes));
  asm volatile("");  // the call is not the last action: its frame stays
}

bool has_frame_in(const Line& line, void (*function)(size_t)) {
  uintptr_t start = reinterpret_cast<uintptr_t>(function);
  std::istringstream in(line.frames);
  for (std::string frame; std::getline(in, frame, ',');) {
    uintptr_t pc = std::stoull(frame, nullptr, 16);
    if (pc > start && pc < start + 200) return true;
  }
  return false;
}

TEST(Trace, ShowsEventsOfTheProgram) {
  constexpr size_t kBlock = 100 * MiB;
  unsigned reader = start();
  EXPECT_TRUE(tracing());
  take_and_give(kBlock);  // more than is cached
  Answer answer;
  ASSERT_TRUE(read(reader, &answer));
  std::vector<Line> maps = answer.with("mmap", "huge"), unmaps = answer.with("munmap", "decay");
  ASSERT_EQ(maps.size(), 1u);
  ASSERT_EQ(unmaps.size(), 1u);
  EXPECT_GE(maps[0].bytes, kBlock);
  EXPECT_EQ(maps[0].thread, static_cast<unsigned>(gettid()));
  EXPECT_EQ(maps[0].size_class, "-");
  EXPECT_FALSE(maps[0].refused);
  EXPECT_LE(maps[0].time + maps[0].took, unmaps[0].time);
  EXPECT_TRUE(has_frame_in(maps[0], take_and_give)) << maps[0].frames;
  EXPECT_TRUE(has_frame_in(unmaps[0], take_and_give)) << unmaps[0].frames;
  EXPECT_TRUE(answer.with("mmap", "report").empty());
  ASSERT_TRUE(read(reader, &answer));
  EXPECT_TRUE(answer.lines.empty()) << "shown twice";
  EXPECT_TRUE(stop_trace(reader));
  EXPECT_FALSE(tracing());
  EXPECT_FALSE(read(reader, &answer));
  EXPECT_FALSE(stop_trace(reader));
}

TEST(Trace, NamesTheSizeClassThatGrew) {
  unsigned reader = start();
  std::vector<void*> blocks;
  for (int i = 0; i < 100000; i++) blocks.push_back(sm_malloc(100));
  Answer answer;
  ASSERT_TRUE(read(reader, &answer));
  stop_trace(reader);
  for (void* block : blocks) sm_free(block);
  std::vector<Line> growth = answer.with("mmap", "growth");
  ASSERT_GE(growth.size(), 3u);
  size_t by_samples = 0;  // which are in spans of the next shared class
  for (const Line& line : growth) {
    by_samples += line.size_class == "128";
    EXPECT_TRUE(line.size_class == "112" || line.size_class == "128") << line.size_class;
  }
  EXPECT_LT(by_samples, growth.size());
}

TEST(Trace, NamesTheSizeClassOfHoles) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100000; i++) blocks.push_back(sm_malloc(208));
  unsigned reader = start();
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 100 != 0) sm_free(blocks[i]);
  }
  sm_malloc_trim(0);
  Answer answer;
  ASSERT_TRUE(read(reader, &answer));
  stop_trace(reader);
  for (size_t i = 0; i < blocks.size(); i += 100) sm_free(blocks[i]);
  std::vector<Line> holes = answer.with("madvise:dontneed", "hole");
  ASSERT_FALSE(holes.empty());
  size_t named = 0;
  for (const Line& line : holes) named += line.size_class == "208";
  EXPECT_GT(named, holes.size() / 2) << "the others are of other tests";
}

TEST(Trace, ShowsRefusals) {
  unsigned reader = start();
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    EXPECT_EQ(sm_malloc(200 * MiB), nullptr);
  }
  Answer answer;
  ASSERT_TRUE(read(reader, &answer));
  stop_trace(reader);
  std::vector<Line> maps = answer.with("mmap", "huge");
  ASSERT_FALSE(maps.empty());
  for (const Line& line : maps) EXPECT_TRUE(line.refused);
}

TEST(Trace, ReadersDoNotDisturbEachOther) {
  unsigned first = start(), second = start();
  ASSERT_NE(first, second);
  take_and_give(100 * MiB);
  Answer answer;
  ASSERT_TRUE(read(first, &answer));
  EXPECT_EQ(answer.with("mmap", "huge").size(), 1u);
  EXPECT_TRUE(stop_trace(first));
  EXPECT_TRUE(tracing());
  take_and_give(100 * MiB);
  ASSERT_TRUE(read(second, &answer));
  EXPECT_EQ(answer.with("mmap", "huge").size(), 2u);
  EXPECT_TRUE(stop_trace(second));
  EXPECT_FALSE(tracing());
}

TEST(Trace, EndsWithoutReaders) {
  unsigned vanished = start();
  tick_trace(os::monotonic_ns() + 4 * kSecondNs);
  EXPECT_TRUE(tracing());
  tick_trace(os::monotonic_ns() + 6 * kSecondNs);
  EXPECT_FALSE(tracing());
  Answer answer;
  EXPECT_FALSE(read(vanished, &answer));
  unsigned another = start();
  EXPECT_NE(another, vanished);
  EXPECT_TRUE(stop_trace(another));
}

TEST(Trace, AllowsEightReaders) {
  unsigned readers[8];
  for (unsigned& reader : readers) reader = start();
  unsigned more = 0;
  EXPECT_EQ(start_trace(&more), TraceStart::kTooManyReaders);
  for (unsigned reader : readers) EXPECT_TRUE(stop_trace(reader));
  EXPECT_FALSE(tracing());
}

TEST(Trace, WithoutMemoryThereIsNone) {
  unsigned reader = 0;
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    EXPECT_EQ(start_trace(&reader), TraceStart::kNoMemory);
  }
  EXPECT_FALSE(tracing());
  reader = start();
  EXPECT_TRUE(stop_trace(reader));
}

// More events than one answer holds, and more than the ring: unread events are counted.
TEST(Trace, CountsLostSamples) {
  unsigned reader = start();
  void* page = os::map(os::page_bytes(), os::Reason::kHole);
  // Soon enough for the reader not to expire.
  constexpr unsigned kCalls = EventRing::kSlots + 200;
  for (unsigned i = 0; i < kCalls; i++) os::purge(page, os::page_bytes(), os::Reason::kHole);
  size_t seen = 0;
  Answer answer;
  do {
    ASSERT_TRUE(read(reader, &answer));
    seen += answer.with("madvise:dontneed", "hole").size();
  } while (answer.more);
  EXPECT_EQ(seen + answer.lost + answer.dropped, kCalls + 1);  // the mmap is among the lost ones
  EXPECT_GT(answer.lost, 0u);
  EXPECT_TRUE(stop_trace(reader));
  os::unmap(page, os::page_bytes(), os::Reason::kHole);
}

TEST(Trace, StartsAndEndsWhileOthersAllocate) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([&] {
      while (!done) take_and_give(40 * MiB);
    });
  }
  for (int i = 0; i < 100; i++) {
    unsigned reader = start();
    Answer answer;
    EXPECT_TRUE(read(reader, &answer));
    EXPECT_TRUE(stop_trace(reader));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  tick_trace(os::monotonic_ns());
}

TEST(Trace, IsOffInAForkedChild) {
  // With the default, memory that other tests have freed many times would stay cached, without
  // calls.
  options::OptionForTest eager(options::Id::purge, "eager");
  unsigned reader = start();
  pid_t child = fork();
  if (child == 0) {
    bool off = !tracing();
    take_and_give(100 * MiB);
    Answer answer;
    bool gone = !read(reader, &answer);
    unsigned own = 0;
    bool can_start = start_trace(&own) == TraceStart::kStarted;
    take_and_give(100 * MiB);
    bool sees = can_start && read(own, &answer) && answer.with("mmap", "huge").size() == 1;
    _exit(off && gone && sees && stop_trace(own) && !tracing() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(tracing());
  take_and_give(100 * MiB);
  Answer answer;
  ASSERT_TRUE(read(reader, &answer));
  EXPECT_EQ(answer.with("mmap", "huge").size(), 1u);
  EXPECT_TRUE(stop_trace(reader));
}

}  // namespace
}  // namespace seemalloc
