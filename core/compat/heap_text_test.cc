// The heap profile as gperftools and jemalloc write it: their readers must get the true values from
// it.
#include "core/compat/heap_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <seemalloc/seemalloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/api/sampling/sampling.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/compat/mallctl.h"
#include "core/compat/malloc_extension.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"

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

// Reads as pprof and jeprof do: scales rows of samples up by the header's interval, each by its
// mean size.
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
    if (sscanf(line.c_str() + (jemalloc ? at + 3 : 0), "%llu: %llu", &count, &bytes) != 2 ||
        count == 0)
      continue;
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

TEST(HeapText, ReadersComputeLiveBytes) {
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

// Samples drawn with another interval than the header's are restated, so that scaling them up gives
// the same.
TEST(HeapText, OtherIntervalsAreRestated) {
  ASSERT_EQ(seemalloc_profile_start(16 * KiB), 0);
  Held held(60000, 1024);
  ASSERT_EQ(seemalloc_profile_start(256 * KiB), 0);
  std::string text = text_of(HeapText::kSampled);
  EXPECT_NE(first_line(text).find("heap_v2/262144"), std::string::npos) << first_line(text);
  EXPECT_NEAR(in_use(text, 256 * KiB).bytes / (60000.0 * 1024), 1, 0.15);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

TEST(HeapText, ExactIfAllAllocationsAreSampled) {
  Sum before = in_use(text_of(HeapText::kAbsolute), 0);
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  Held held(1000, 512);
  Sum after = in_use(text_of(HeapText::kAbsolute), 0);
  EXPECT_EQ(after.blocks - before.blocks, 1000);
  EXPECT_EQ(after.bytes - before.bytes, 512000);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

// As jemalloc documents it: samples from before the reset are forgotten, live or not; freeing them
// later makes no difference.
TEST(HeapText, ResetForgetsSamples) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  Sum ours = in_use(text_of(HeapText::kAbsolute), 0);
  auto held = std::make_unique<Held>(1000, 512);
  auto all = [](const std::string& text) {
    unsigned long long blocks = 0, bytes = 0;
    EXPECT_EQ(sscanf(text.c_str() + text.find("["), "[%llu: %llu]", &blocks, &bytes), 2) << text;
    return std::pair{blocks, bytes};
  };
  for (int round = 0; round < 3; round++) {
    ASSERT_EQ(control("prof.reset", nullptr, nullptr, nullptr, 0), 0);
    EXPECT_EQ(in_use(text_of(HeapText::kJemalloc), 1).blocks, 0);
    EXPECT_EQ(all(text_of(HeapText::kJemalloc)), (std::pair{0ull, 0ull}));
    EXPECT_EQ(in_use(text_of(HeapText::kAbsolute), 0).blocks - ours.blocks, 1000)
        << "others see all";
    Held fresh(200, 512);
    for (int i = 0; i < 50; i++)
      sm_free(std::exchange(fresh.blocks[static_cast<size_t>(i)], nullptr));
    if (round == 1) held = std::make_unique<Held>(1000, 512);
    std::string text = text_of(HeapText::kJemalloc);
    EXPECT_EQ(in_use(text, 1).blocks, round == 1 ? 1150 : 150);
    EXPECT_EQ(in_use(text, 1).bytes, (round == 1 ? 1150 : 150) * 512);
    EXPECT_EQ(all(text).first, round == 1 ? 1200u : 200u);
    EXPECT_NE(text.find("# prof.reset: "), std::string::npos);
  }
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

// Also if another thread was about to reset when the process forked: the child does not have that
// thread.
TEST(HeapText, ResetWorksInForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "locks of the sanitizer's own that the other threads hold at a fork stay locked in the child";
#endif
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  auto reset = [] { return control("prof.reset", nullptr, nullptr, nullptr, 0); };
  Progress resets;
  std::jthread busy([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); resets.advance()) EXPECT_EQ(reset(), 0);
  });
  for (int i = 0; i < 50; i++) {
    resets.wait_for_more();
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      if (reset() != 0) _exit(1);
      Held fresh(200, 512);
      _exit(in_use(text_of(HeapText::kJemalloc), 1).blocks == 200 ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << ", child " << i;
  }
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

// The growth profile's sum, in rows and as words.
TEST(HeapText, GrowthMatchesHeapGrowth) {
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
  sum << "heap profile: " << static_cast<uint64_t>(after.blocks) << ": "
      << static_cast<uint64_t>(after.bytes) << " [";
  EXPECT_EQ(first_line(text).rfind(sum.c_str(), 0), 0u) << first_line(text);
  EXPECT_NE(first_line(text).find("] @ growth"), std::string::npos);
  EXPECT_NE(text.find(" @ 0x"), std::string::npos);
  for (void* p : blocks) sm_free(p);
}

// A reader scales the words up by the period, as it does the text.
TEST(HeapText, StackTraceArraysAreRestated) {
  ASSERT_EQ(seemalloc_profile_start(16 * KiB), 0);
  Held held(60000, 1024);
  ASSERT_EQ(seemalloc_profile_start(100000), 0);
  int period = 0;
  void** all = MallocExtension::instance()->ReadStackTraces(&period);
  EXPECT_EQ(period, 100000);
  double sum = 0;
  for (void** at = all; at[0] != nullptr; at += 3 + reinterpret_cast<uintptr_t>(at[2])) {
    double count = static_cast<double>(reinterpret_cast<uintptr_t>(at[0])),
           bytes = static_cast<double>(reinterpret_cast<uintptr_t>(at[1]));
    sum += bytes / (1 - std::exp(-bytes / count / period));
  }
  operator delete[](all);
  EXPECT_NEAR(sum / (60000.0 * 1024), 1, 0.15);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

__attribute__((noinline)) void* allocate_at_depth(unsigned depth) {
  void* block = depth == 0 ? sm_malloc(100) : allocate_at_depth(depth - 1);
  asm volatile("" : : "r"(block));
  return block;
}

// The lines that readers skip, between header and rows: the equivalent of comments in
// profile.proto.
std::vector<std::string> notes_of(HeapText form) {
  std::vector<std::string> notes;
  std::istringstream lines(text_of(form));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.rfind("@ ", 0) != 0 &&
         line.find("] @ ") == std::string::npos) {
    if (line.rfind("# ", 0) == 0) notes.push_back(line);
  }
  return notes;
}

uint64_t figure_before(const std::vector<std::string>& notes, const char* words) {
  for (const std::string& note : notes) {
    size_t end = note.find(words);
    if (end != std::string::npos)
      return strtoull(note.c_str() + note.rfind(' ', end - 1) + 1, nullptr, 10);
  }
  ADD_FAILURE() << "no note has: " << words;
  return 0;
}

// All addresses of a stack's rows, as readers parse them: 0x, digits, a blank.
TEST(HeapText, AddressesAreThoseOfTheStacks) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  void* block = allocate_at_depth(3);
  for (HeapText form :
       {HeapText::kSampled, HeapText::kAbsolute, HeapText::kJemalloc, HeapText::kGrowth}) {
    std::istringstream lines(text_of(form));
    std::string line;
    unsigned addresses = 0;
    while (std::getline(lines, line) && line.rfind("MAPPED", 0) != 0) {
      size_t at = line.rfind("@ ", 0) == 0 ? 0 : line.find("] @ 0x");
      if (line[0] == '#' || at == std::string::npos) continue;
      std::istringstream words(line.substr(line.find('@', at) + 1));
      for (std::string word; words >> word; addresses++) {
        char* end = nullptr;
        EXPECT_GT(strtoull(word.c_str(), &end, 16), 4096u) << word;
        EXPECT_EQ(*end, 0) << word;
      }
    }
    EXPECT_GT(addresses, 2u);
  }
  sm_free(block);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

TEST(HeapText, NotesMissedAllocations) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  constexpr HeapText kForms[] = {HeapText::kSampled, HeapText::kAbsolute, HeapText::kJemalloc};
  uint64_t dropped = figure_before(notes_of(kForms[0]), " more dropped for lack of memory");
  uint64_t truncated = figure_before(notes_of(kForms[0]), " samples with a truncated stack");
  for (int i = 0; i < 3; i++) count_dropped_sample();
  ASSERT_EQ(seemalloc_option_set("stack_depth", "8"), 0);
  void* cut = allocate_at_depth(20);
  ASSERT_EQ(seemalloc_option_set("stack_depth", "64"), 0);
  for (HeapText form : kForms) {
    std::vector<std::string> notes = notes_of(form);
    EXPECT_EQ(figure_before(notes, " more dropped for lack of memory"), dropped + 3);
    EXPECT_EQ(figure_before(notes, " samples with a truncated stack"), truncated + 1);
    EXPECT_GT(figure_before(notes, " live bytes"), 100u) << "the exact total";
  }
  EXPECT_GT(figure_before(notes_of(HeapText::kGrowth), " bytes obtained from the OS"), 0u);
  sm_free(cut);
  ASSERT_EQ(seemalloc_profile_start(64 * KiB), 0);
}

TEST(HeapText, FilesAreCompleteOrAbsent) {
  std::string path = testing::TempDir() + "heap_text_test." + std::to_string(os::process_id());
  ASSERT_EQ(write_heap_text(HeapText::kJemalloc, path.c_str()), 0);
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line.rfind("heap_v2/", 0), 0u);
  remove(path.c_str());
  EXPECT_LT(write_heap_text(HeapText::kJemalloc, "/nowhere/at/all"), 0);
}

// A path that is not a regular file is written to. Renaming over it would replace a device for all
// its users.
TEST(HeapText, APipeStaysAPipe) {
  std::string path = testing::TempDir() + "heap_text_test.pipe." + std::to_string(os::process_id());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  std::string read_here;
  std::thread reader([&] {
    char part[4096];
    for (;;) {
      pollfd readable{fd, POLLIN, 0};  // waits for a writer, too
      poll(&readable, 1, -1);
      ssize_t n = read(fd, part, sizeof(part));
      if (n == 0) return;  // the writer has closed it
      if (n > 0) read_here.append(part, static_cast<size_t>(n));
    }
  });
  EXPECT_EQ(write_heap_text(HeapText::kJemalloc, path.c_str()), 0);
  reader.join();
  close(fd);
  EXPECT_EQ(read_here.rfind("heap_v2/", 0), 0u);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  remove(path.c_str());
}

TEST(HeapText, LeftoverOfKilledWriterIsIgnored) {
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
