// The heap profile as gperftools and jemalloc write it: what their readers make of it is the truth.
#include "core/compat/heap_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/api/test_api.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/compat/malloc_extension.h"
#include "core/os/fault.h"
#include "core/os/os.h"

namespace seemalloc::compat {
namespace {

std::string text_of(HeapText form) {
  ProfileBytes text{};
  EXPECT_TRUE(heap_text(form, &text));
  std::string copy(text.data, text.bytes);
  os::unmap(text.data, text.mapped_bytes, os::Reason::kReport);
  return copy;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct Sum {
  double blocks = 0, bytes = 0;
};

// As pprof and jeprof do it: rows of samples are scaled up by the interval of the header, each by its mean size.
Sum in_use(const std::string& text, double interval) {
  Sum sum;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  bool jemalloc = line.rfind("heap_v2/", 0) == 0, stack = false;
  while (std::getline(lines, line) && line.rfind("MAPPED", 0) != 0) {
    unsigned long long count = 0, bytes = 0;
    if (jemalloc && line[0] == '@') stack = true;
    size_t at = line.find("t*:");
    if (jemalloc && (at == std::string::npos || !stack)) continue;
    if (sscanf(line.c_str() + (jemalloc ? at + 3 : 0), "%llu: %llu", &count, &bytes) != 2 || count == 0) continue;
    double each = static_cast<double>(bytes) / static_cast<double>(count);
    double scale = interval > 1 ? 1 / (1 - std::exp(-each / interval)) : 1;
    sum.blocks += scale * static_cast<double>(count);
    sum.bytes += scale * static_cast<double>(bytes);
  }
  return sum;
}

struct Held {
  std::vector<void*> blocks;
  explicit Held(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) blocks.push_back(sm_malloc(bytes));
  }
  ~Held() {
    for (void* p : blocks) sm_free(p);
  }
};

TEST(HeapText, ReadersComeToWhatIsInUse) {
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
  Held held(60000, 1024);  // 58.6 MiB: 940 samples, of which 4 standard errors are 13 %
  double wanted = 60000.0 * 1024;
  for (HeapText form : {HeapText::kSampled, HeapText::kJemalloc}) {
    std::string text = text_of(form);
    EXPECT_NE(first_line(text).find("heap_v2/65536"), std::string::npos) << first_line(text);
    EXPECT_NEAR(in_use(text, 64 * KiB).bytes / wanted, 1, 0.15);
    EXPECT_NE(text.find("\nMAPPED_LIBRARIES:\n"), std::string::npos);
  }
  std::string text = text_of(HeapText::kAbsolute);
  EXPECT_NE(first_line(text).find("@ heapprofile"), std::string::npos);
  EXPECT_NEAR(in_use(text, 0).bytes / wanted, 1, 0.15);
}

// What was drawn with another interval than the header's is restated, so that scaling it up gives the same.
TEST(HeapText, OtherIntervalsAreRestated) {
  ASSERT_EQ(seemalloc_profile_start(16 * KiB), 0);
  Held held(60000, 1024);
  ASSERT_EQ(seemalloc_profile_start(256 * KiB), 0);
  std::string text = text_of(HeapText::kSampled);
  EXPECT_NE(first_line(text).find("heap_v2/262144"), std::string::npos) << first_line(text);
  EXPECT_NEAR(in_use(text, 256 * KiB).bytes / (60000.0 * 1024), 1, 0.15);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

TEST(HeapText, ExactWhereEverythingIsRecorded) {
  Sum before = in_use(text_of(HeapText::kAbsolute), 0);
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  Held held(1000, 512);
  Sum after = in_use(text_of(HeapText::kAbsolute), 0);
  EXPECT_EQ(after.blocks - before.blocks, 1000);
  EXPECT_EQ(after.bytes - before.bytes, 512000);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

// The growth profile's sum, in rows and as words.
TEST(HeapText, GrowthIsWhatTheHeapHasGrownBy) {
  std::vector<void*> blocks;
  auto rows = [] { return in_use(text_of(HeapText::kGrowth), 0); };
  auto words = [] {
    Sum sum;
    void** all = MallocExtension::instance()->ReadHeapGrowthStackTraces();
    for (void** at = all; at[0] != nullptr; at += 3 + reinterpret_cast<uintptr_t>(at[2])) {
      sum.blocks += static_cast<double>(reinterpret_cast<uintptr_t>(at[0]));
      sum.bytes += static_cast<double>(reinterpret_cast<uintptr_t>(at[1]));
    }
    operator delete[](all);
    return sum;
  };
  double before = rows().bytes;
  for (int i = 0; i < 8; i++) blocks.push_back(sm_malloc(16 * MiB));
  Sum after = rows();
  EXPECT_GE(after.bytes - before, 8.0 * 16 * MiB);
  EXPECT_LT(after.bytes - before, 9.0 * 16 * MiB);
  EXPECT_GE(after.blocks, 8);
  EXPECT_EQ(words().bytes, after.bytes);
  EXPECT_EQ(words().blocks, after.blocks);
  std::string text = text_of(HeapText::kGrowth);
  FixedText<64> sum;
  sum << "heap profile: " << static_cast<uint64_t>(after.blocks) << ": " << static_cast<uint64_t>(after.bytes) << " [";
  EXPECT_EQ(first_line(text).rfind(sum.c_str(), 0), 0u) << first_line(text);
  EXPECT_NE(first_line(text).find("] @ growth"), std::string::npos);
  EXPECT_NE(text.find(" @ 0x"), std::string::npos);
  for (void* p : blocks) sm_free(p);
}

// A reader scales the words up by the period, as the text.
TEST(HeapText, WordsOfOtherIntervalsAreRestated) {
  ASSERT_EQ(seemalloc_profile_start(16 * KiB), 0);
  Held held(60000, 1024);
  ASSERT_EQ(seemalloc_profile_start(100000), 0);
  int period = 0;
  void** all = MallocExtension::instance()->ReadStackTraces(&period);
  EXPECT_EQ(period, 100000);
  double sum = 0;
  for (void** at = all; at[0] != nullptr; at += 3 + reinterpret_cast<uintptr_t>(at[2])) {
    double count = static_cast<double>(reinterpret_cast<uintptr_t>(at[0])), bytes = static_cast<double>(reinterpret_cast<uintptr_t>(at[1]));
    sum += bytes / (1 - std::exp(-bytes / count / period));
  }
  operator delete[](all);
  EXPECT_NEAR(sum / (60000.0 * 1024), 1, 0.15);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

TEST(HeapText, FilesAreWholeOrNotThere) {
  std::string path = testing::TempDir() + "heap_text_test." + std::to_string(os::process_id());
  ASSERT_EQ(write_heap_text(HeapText::kJemalloc, path.c_str()), 0);
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line.rfind("heap_v2/", 0), 0u);
  remove(path.c_str());
  EXPECT_LT(write_heap_text(HeapText::kJemalloc, "/nowhere/at/all"), 0);
}

// What is no file is written to; renaming over it would take a device away from everybody.
TEST(HeapText, APipeStaysAPipe) {
  std::string path = testing::TempDir() + "heap_text_test.pipe." + std::to_string(os::process_id());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  int fd = open(path.c_str(), O_RDWR | O_NONBLOCK);
  std::atomic<bool> done{false};
  std::string read_here;
  std::thread reader([&] {
    char part[4096];
    for (bool last = false; !last;) {
      last = done;
      for (ssize_t n; (n = read(fd, part, sizeof(part))) > 0;) read_here.append(part, static_cast<size_t>(n));
      os::pause(kMillisecond_ns);
    }
  });
  EXPECT_EQ(write_heap_text(HeapText::kJemalloc, path.c_str()), 0);
  done = true;
  reader.join();
  close(fd);
  EXPECT_EQ(read_here.rfind("heap_v2/", 0), 0u);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  remove(path.c_str());
}

TEST(HeapText, WhatAKilledWriterLeftIsNotInTheWay) {
  std::string path = testing::TempDir() + "heap_text_test.left." + std::to_string(os::process_id());
  std::string left = path + ".tmp." + std::to_string(os::thread_id());
  std::ofstream(left) << "half of a";
  EXPECT_EQ(write_heap_text(HeapText::kJemalloc, path.c_str()), 0);
  remove(left.c_str());
  remove(path.c_str());
  EXPECT_EQ(write_heap_text(HeapText::kJemalloc, std::string(600, 'x').c_str()), -ENAMETOOLONG);
}

}  // namespace
}  // namespace seemalloc::compat
