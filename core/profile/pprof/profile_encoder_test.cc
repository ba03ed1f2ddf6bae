#include "core/profile/pprof/profile_encoder.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <random>
#include <string>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {
namespace {

constexpr ValueType kTypes[] = {{"things", "count"}, {"room", "bytes"}};

std::string finished(ProfileEncoder& encoder) {
  Buffer buffer;
  if (!encoder.finish(&buffer)) return "";
  std::string bytes(buffer.data, buffer.bytes);
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  return bytes;
}

TEST(ProfileEncoder, WritesAllFields) {
  ProfileEncoder encoder;
  ASSERT_TRUE(encoder.begin(kTypes, 2, {"time", "nanoseconds"}, 1000));
  encoder.duration(5000);
  FixedText<64> text;
  text << "something to know";
  encoder.comment(text);
  uintptr_t stack[] = {0x1001, 0x2001};
  int64_t values[] = {-3, 0};
  Label labels[] = {
      {"size", 64, "bytes"}, {"where", 0, nullptr, "far away"}, {"less", -1, "count"}};
  encoder.row(stack, 2, values, labels, 3);
  encoder.row(stack, 0, values, nullptr, 0);
  std::string bytes = finished(encoder);
  Profile profile = decode(bytes);
  EXPECT_EQ(profile.types, (std::vector<std::string>{"things/count", "room/bytes"}));
  EXPECT_EQ(profile.period_type, "time/nanoseconds");
  EXPECT_EQ(profile.numbers[12], 1000u);
  EXPECT_EQ(profile.numbers[10], 5000u);
  EXPECT_EQ(profile.string(profile.numbers[14]), "room");
  EXPECT_EQ(profile.comments, (std::vector<std::string>{"something to know"}));
  std::vector<DecodedRow> rows = rows_of(bytes);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].stack, (std::vector<uint64_t>{0x1000, 0x2000}));
  EXPECT_EQ(rows[0].values, (std::vector<int64_t>{-3, 0}));
  EXPECT_EQ(rows[0].labels, (std::map<std::string, std::string>{
                                {"size", "64"}, {"where", "far away"}, {"less", "-1"}}));
  EXPECT_TRUE(rows[1].stack.empty());
  EXPECT_TRUE(rows[1].labels.empty());
}

TEST(ProfileEncoder, RoundsToTheNearest) {
  EXPECT_EQ(rounded(0.4), 0);
  EXPECT_EQ(rounded(0.5), 1);
  EXPECT_EQ(rounded(-0.4), 0);
  EXPECT_EQ(rounded(-2.6), -3);
  EXPECT_EQ(rounded(1e30), INT64_MAX);
  EXPECT_EQ(rounded(-1e30), -INT64_MAX);
}

struct Expected {
  std::vector<uint64_t> stack;
  std::vector<int64_t> values;
  std::map<std::string, std::string> labels;
};

// Label texts in random order, far more of them than are cached: each row must keep its own.
TEST(ProfileEncoder, AgreesWithAModel) {
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  ProfileEncoder encoder;
  ASSERT_TRUE(encoder.begin(kTypes, 2, {"space", "bytes"}, 1));
  std::vector<Expected> model;
  for (int step = 0; step < 20000; step++) {
    uintptr_t stack[kMaxStackDepth];
    unsigned depth = random() % (kMaxStackDepth + 1);
    Expected row;
    for (unsigned i = 0; i < depth; i++) {
      stack[i] = 2 + random() % 5000;
      row.stack.push_back(stack[i] - 1);
    }
    row.values = {static_cast<int64_t>(random()) >> random() % 64,
                  static_cast<int64_t>(random() % 3)};
    std::string text = "thread " + std::string(random() % 20, 'x') + std::to_string(random() % 300);
    std::string key = "key" + std::to_string(random() % 4);
    Label labels[] = {{key.c_str(), 0, nullptr, text.c_str()},
                      {"n", static_cast<int64_t>(random() % 100), "count"}};
    unsigned count = random() % 3;
    if (count > 0) row.labels[key] = text;
    if (count > 1) row.labels["n"] = std::to_string(labels[1].number);
    encoder.row(stack, depth, row.values.data(), labels, count);
    model.push_back(row);
  }
  std::vector<DecodedRow> rows = rows_of(finished(encoder));
  ASSERT_EQ(rows.size(), model.size());
  for (size_t i = 0; i < rows.size(); i++) {
    ASSERT_EQ(rows[i].stack, model[i].stack) << "row " << i;
    ASSERT_EQ(rows[i].values, model[i].values) << "row " << i;
    ASSERT_EQ(rows[i].labels, model[i].labels) << "row " << i;
  }
}

TEST(ProfileEncoder, ReportsRefusedMemory) {
  static long calls_until_refusal;
  int refusals = 0;
  for (long nth = 1;; nth++) {
    ProfileEncoder encoder;
    calls_until_refusal = nth;
    os::fault_hook = [](long number) -> long {
      bool counted = number == SYS_mmap || number == SYS_mremap;
      return counted && --calls_until_refusal <= 0 ? -12 : 0;
    };
    encoder.begin(kTypes, 2, {"space", "bytes"}, 1);
    for (uintptr_t i = 0; i < 20000; i++) {
      uintptr_t stack[] = {i * 16 + 1};
      int64_t values[] = {1, 1};
      Label label{"text", 0, nullptr, "a"};
      encoder.row(stack, 1, values, &label, 1);
    }
    Buffer buffer{};
    bool done = encoder.finish(&buffer);
    os::fault_hook = nullptr;
    if (done) {
      os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
      break;
    }
    EXPECT_EQ(buffer.data, nullptr);
    refusals++;
    ASSERT_LT(refusals, 1000);
  }
  EXPECT_GE(refusals, 4);
}

}  // namespace
}  // namespace seemalloc::profile
