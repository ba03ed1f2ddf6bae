// Messages of the allocator: an unknown option or a bad value is reported by one line on stderr
// that names it and the expected values; valid options print nothing; stdout is never written to.
//
// Runs MESSAGES_PROGRAM (lifecycle/quiet.c, which prints "ok") with SEEMALLOC_LIB preloaded.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "harness/child.h"

namespace {

conform::Outcome run_with(const std::string& options) {
  return conform::run(
      {{getenv("MESSAGES_PROGRAM")},
       {std::string("LD_PRELOAD=") + getenv("SEEMALLOC_LIB"), "SEEMALLOC_CONF=" + options},
       20});
}

void expect_lines(const std::string& options,
                  const std::vector<std::vector<std::string>>& expected) {
  SCOPED_TRACE("SEEMALLOC_CONF=" + options);
  conform::Outcome outcome = run_with(options);
  EXPECT_TRUE(outcome.exited(0)) << outcome.all();
  EXPECT_EQ(outcome.out, "ok\n");
  std::vector<std::string> lines = conform::lines_of(outcome.err);
  ASSERT_EQ(lines.size(), expected.size()) << outcome.all();
  for (size_t i = 0; i < lines.size(); i++) {
    EXPECT_EQ(lines[i].rfind("seemalloc: ", 0), 0u) << lines[i];
    for (const std::string& part : expected[i])
      EXPECT_NE(lines[i].find(part), std::string::npos) << lines[i] << "\nlacks " << part;
  }
}

TEST(Messages, GoodOptionsAreSilent) {
  expect_lines("", {});
  expect_lines("sample:64K", {});
  expect_lines("sample:1,purge_delay:0,foreign:report", {});
  expect_lines("sample:0,purge:off,helper:0,", {});
}

TEST(Messages, AnUnknownOptionIsNamed) {
  expect_lines("smaple:64K", {{"smaple"}});
  expect_lines("Sample:1", {{"Sample"}});
  expect_lines("sample", {{"sample", "expected"}});
  expect_lines(":5", {{"\"\""}});
}

TEST(Messages, BadValueIsReportedWithTheExpectedOnes) {
  expect_lines("sample:lots", {{"lots", "sample", "expected"}});
  expect_lines("foreign:never", {{"never", "foreign", "pass", "report", "fatal"}});
  expect_lines("sample:-1", {{"-1", "sample"}});
  expect_lines("sample:99999999999999999999", {{"99999999999999999999", "sample"}});
}

TEST(Messages, OneLineEachAndTheRestIsObeyed) {
  expect_lines("nonsense:1,sample:lots,foreign:report,purge:maybe",
               {{"nonsense"}, {"lots"}, {"maybe"}});
}

TEST(Messages, LongOnesAreCutNotSpilled) {
  std::string long_name(5000, 'n');
  conform::Outcome outcome = run_with(long_name + ":1");
  EXPECT_TRUE(outcome.exited(0)) << outcome.all();
  EXPECT_EQ(outcome.out, "ok\n");
  EXPECT_EQ(conform::lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_EQ(outcome.err.back(), '\n');
}

TEST(Messages, NotRepeatedByForkedChildren) {
  conform::Outcome outcome = conform::run(
      {{getenv("MESSAGES_PROGRAM"), "fork"},
       {std::string("LD_PRELOAD=") + getenv("SEEMALLOC_LIB"), "SEEMALLOC_CONF=nonsense:1"},
       20});
  EXPECT_TRUE(outcome.exited(0)) << outcome.all();
  EXPECT_EQ(conform::lines_of(outcome.err).size(), 1u) << outcome.err;
}

}  // namespace
