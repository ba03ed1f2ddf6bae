#include "core/base/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace seemalloc::options {
namespace {

std::vector<std::string> lines;
void keep(const char* line) { lines.push_back(line); }

std::string printed(Id id) {
  FixedText<512> text;
  print(id, text);
  return text.c_str();
}

TEST(Options, ReadsNumbersWithSuffixes) {
  lines.clear();
  parse("sample:64K,purge_delay:250,sample_limit:77", keep);
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(get(Id::sample), 64 * KiB);
  EXPECT_EQ(get(Id::purge_delay), 250u);
  EXPECT_EQ(get(Id::sample_limit), 77u);
  parse("sample:1g", keep);
  EXPECT_EQ(printed(Id::sample), "1G");
}

TEST(Options, ReportsUnknownNamesAndContinues) {
  lines.clear();
  parse("smaple:1M,sample:1M", keep);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("\"smaple\""), std::string::npos) << lines[0];
  EXPECT_EQ(get(Id::sample), MiB);
}

TEST(Options, ReportsExpectedValues) {
  lines.clear();
  parse("sample:lots,purge:maybe,foreign:never,stack_depth:3,sample:99999999999999999999,purge",
        keep);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_NE(lines[0].find("bad value \"lots\" for sample ignored; expected bytes from 0 to 1T"),
            std::string::npos)
      << lines[0];
  EXPECT_NE(lines[1].find("balanced, eager or never"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("pass, report or fatal"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("a number from 4 to 128"), std::string::npos) << lines[3];
}

TEST(Options, ChoicesAreWordsAndFormerSwitchesStillWork) {
  lines.clear();
  auto purge_after = [](const char* text) {
    parse(text, keep);
    return static_cast<Purge>(get(Id::purge));
  };
  EXPECT_EQ(purge_after("purge:eager"), Purge::kEager);
  EXPECT_EQ(printed(Id::purge), "eager");
  for (const char* off : {"purge:never", "purge:off", "purge:0", "purge:false"})
    EXPECT_EQ(purge_after(off), Purge::kNever) << off;
  for (const char* on : {"purge:balanced", "purge:on", "purge:1", "purge:true"})
    EXPECT_EQ(purge_after(on), Purge::kBalanced) << on;
  EXPECT_TRUE(lines.empty());
  parse("purge:2,foreign:1,foreign:on", keep);
  EXPECT_EQ(lines.size(), 3u);
}

TEST(Options, AnAliasIsTheOption) {
  lines.clear();
  parse("delay:1234", keep);
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(get(Id::purge_delay), 1234u);
  parse("delay:never", keep);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(
      lines[0].find("for purge_delay ignored; expected milliseconds from 0 to 3600000, or auto"),
      std::string::npos)
      << lines[0];
}

TEST(Options, KnowsExplicitlySetOptions) {
  EXPECT_FALSE(is_explicitly_set(Id::thread_cache));
  parse("thread_cache:1,thread_cache:", keep);
  EXPECT_FALSE(is_explicitly_set(Id::thread_cache)) << "bad values are no choice";
  parse("thread_cache:32M", keep);
  EXPECT_TRUE(is_explicitly_set(Id::thread_cache));
}

TEST(Options, AutoTakesAChoiceBack) {
  lines.clear();
  parse("purge_delay:250", keep);
  EXPECT_TRUE(is_explicitly_set(Id::purge_delay));
  EXPECT_EQ(printed(Id::purge_delay), "250");
  parse("purge_delay:1000", keep);
  EXPECT_TRUE(is_explicitly_set(Id::purge_delay)) << "a number is a choice, whichever";
  EXPECT_EQ(printed(Id::purge_delay), "1000");
  parse("delay:auto", keep);
  EXPECT_FALSE(is_explicitly_set(Id::purge_delay));
  EXPECT_EQ(get(Id::purge_delay), row(Id::purge_delay).default_value);
  EXPECT_EQ(printed(Id::purge_delay), "auto");
  EXPECT_TRUE(lines.empty());
  parse("baseline_after:auto,stack_depth:auto", keep);
  EXPECT_EQ(lines.size(), 2u) << "what does not adapt";
}

TEST(Options, KeepsTexts) {
  lines.clear();
  parse("dump_at_exit:/tmp/x.%p.pb,", keep);
  EXPECT_TRUE(lines.empty());
  EXPECT_STREQ(get_text(Id::dump_at_exit), "/tmp/x.%p.pb");
  std::string too_long(kMaxTextBytes, 'x');
  parse(("dump_at_exit:" + too_long).c_str(), keep);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_STREQ(get_text(Id::dump_at_exit), "/tmp/x.%p.pb");
}

TEST(Options, EveryDefaultIsItsOwnValidValue) {
  for (size_t i = 0; i < kCount; i++) {
    Id id = static_cast<Id>(i);
    if (row(id).kind == Kind::kText) continue;
    FixedText<64> text;
    FixedText<256> problem;
    print_default(id, text);
    EXPECT_TRUE(set(id, text.c_str(), text.size(), problem)) << row(id).name << " " << text.c_str();
    EXPECT_EQ(get(id), row(id).default_value) << row(id).name;
    EXPECT_GT(text_length(row(id).help), 20u);
  }
}

}  // namespace
}  // namespace seemalloc::options
