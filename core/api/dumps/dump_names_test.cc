#include "core/api/dumps/dump_names.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <string>

#include "core/base/option_for_test.h"

namespace seemalloc {
namespace {

using options::Id;
using options::OptionForTest;

std::string next(DumpReason reason) {
  FixedText<kDumpPathBytes> path;
  EXPECT_TRUE(next_dump_name(reason, path));
  return path.c_str();
}

std::string own() { return std::to_string(getpid()); }

TEST(DumpNames, Patterns) {
  FixedText<kDumpPathBytes> first, second, other;
  ASSERT_TRUE(dump_name_from("a.%p.%n.%%.%x.%", first));
  EXPECT_EQ(first.c_str(), "a." + own() + ".1.%.%x.%");
  ASSERT_TRUE(dump_name_from("%n", second));
  EXPECT_STREQ(second.c_str(), "2");
  long before = time(nullptr);
  ASSERT_TRUE(dump_name_from("%t", other));
  EXPECT_GE(atol(other.c_str()), before);
  // time() may be a tick late.
  EXPECT_LE(atol(other.c_str()),
            std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  FixedText<8> small;
  EXPECT_FALSE(dump_name_from("too long a name", small));
}

TEST(DumpNames, Ours) {
  std::string name = next(DumpReason::kRequested);
  EXPECT_EQ(name.find("seemalloc." + own() + "."), 0u) << name;
  OptionForTest prefix(Id::dump_prefix, "/tmp/x%p-%n");
  unsigned number =
      static_cast<unsigned>(atoi(name.c_str() + name.find(own()) + own().size() + 1)) + 1;
  std::string count = std::to_string(number);
  EXPECT_EQ(next(DumpReason::kGrowth),
            "/tmp/x" + own() + "-" + count + "." + own() + "." + count + ".heap.pb");
}

// As documented; % has no meaning.
TEST(DumpNames, Gperftools) {
  OptionForTest prefix(Id::dump_prefix, "/tmp/g%p"), names(Id::dump_names, "gperftools");
  init_dump_names();
  std::string first = next(DumpReason::kAllocated);
  EXPECT_EQ(first.size(), std::string("/tmp/g%p.0001.heap").size());
  EXPECT_EQ(first.substr(0, 9), "/tmp/g%p.");
  EXPECT_EQ(first.substr(13), ".heap");
  int number = atoi(first.c_str() + 9);
  EXPECT_EQ(atoi(next(DumpReason::kExit).c_str() + 9), number + 1) << "one count for all";
  int child = fork();
  if (child == 0) _exit(next(DumpReason::kExit).find("/tmp/g%p_" + own() + ".00") == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "a child has its id behind the prefix";
}

// <prefix>.<pid>.<seq>.v<vseq>.heap, and f without vseq.
TEST(DumpNames, Jemalloc) {
  OptionForTest names(Id::dump_names, "jemalloc");
  std::string first = next(DumpReason::kAllocated);
  int sequence = atoi(first.c_str() + ("jeprof." + own() + ".").size());
  auto expected = [&](int after, const char* letter) {
    return "jeprof." + own() + "." + std::to_string(sequence + after) + "." + letter + ".heap";
  };
  EXPECT_EQ(first, expected(0, "i0"));
  EXPECT_EQ(next(DumpReason::kGrowth), expected(1, "u0"));
  EXPECT_EQ(next(DumpReason::kAllocated), expected(2, "i1"));
  EXPECT_EQ(next(DumpReason::kRequested), expected(3, "m0"));
  EXPECT_EQ(next(DumpReason::kSignal), expected(4, "m1"));
  EXPECT_EQ(next(DumpReason::kTime), expected(5, "t0"));
  EXPECT_EQ(next(DumpReason::kFailure), expected(6, "o0"));
  EXPECT_EQ(next(DumpReason::kInUse), expected(7, "h0"));
  EXPECT_EQ(next(DumpReason::kExit), expected(8, "f"));
}

}  // namespace
}  // namespace seemalloc
