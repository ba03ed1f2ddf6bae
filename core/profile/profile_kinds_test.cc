// The kinds of profiles against a model: a program of its own, so that nobody else has samples.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/compiler.h"
#include "core/os/os.h"
#include "core/os/syscall.h"
#include "core/profile/decoder_for_test.h"
#include "core/profile/heap_profile.h"
#include "core/profile/records.h"
#include "core/profile/sampler.h"

namespace seemalloc::profile {
namespace {

std::string written(Kind kind, uint64_t interval = 1) {
  Buffer buffer;
  if (!heap_profile_to_buffer(&buffer, interval, kind, 12345)) return "";
  std::string bytes(buffer.data, buffer.bytes);
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  return bytes;
}

std::string comments(const std::string& bytes) {
  std::string all;
  for (const std::string& comment : decode(bytes).comments) all += comment + "\n";
  return all;
}

Stack make_stack(uintptr_t number) {
  Stack stack;
  stack.depth = 1;
  stack.pcs[0] = 0x10000 + number;
  return stack;
}

// Rows of one stack, size and drawn size are one bucket; samples only, as weights differ.
using Key = std::tuple<uintptr_t, size_t, size_t, uint64_t>;  // stack, allocated, drawn, interval
struct Counts {
  uint64_t alloc = 0, live = 0, freed = 0, asked = 0, at_peak = 0, mark_alloc = 0, mark_live = 0;
};

struct Block {
  Key key;
  double bytes() const { return static_cast<double>(std::get<1>(key)); }
  double weight() const { return sample_weight(std::get<2>(key), std::get<3>(key)); }
};

struct Model {
  std::map<Key, Counts> rows;
  std::map<SampleId, Block> blocks;
  int64_t in_use = 0, top = 0;

  static int64_t weighted(const Key& key) {
    double weight = sample_weight(std::get<2>(key), std::get<3>(key));
    return static_cast<int64_t>(weight * static_cast<double>(std::get<1>(key)) + 0.5);
  }
  void change(int64_t bytes) {
    in_use += bytes;
    if (in_use <= top) return;
    top = in_use;
    for (auto& [key, counts] : rows) counts.at_peak = counts.live;
  }
  void alloc(uint64_t random, uint64_t asked) {
    size_t bytes = size_t{16} << random % 6;
    asked = bytes - asked % (bytes / 4);
    uint64_t interval = (random >> 8) % 2 == 0 ? 1 : 4096;
    Key key{0x10000 + (random >> 16) % 8, bytes, bytes, interval};
    SampleId id = record_alloc({asked, bytes, interval}, make_stack(std::get<0>(key) - 0x10000));
    ASSERT_NE(id, 0u);
    blocks[id] = {key};
    rows[key].alloc++;
    rows[key].live++;
    rows[key].asked += asked;
    change(weighted(key));
  }
  void free(SampleId id) {
    Key key = blocks.at(id).key;
    record_free(nullptr, id, {id % 5 == 0 ? 0 : 4 + id % 3, true});
    blocks.erase(id);
    rows[key].live--;
    rows[key].freed++;
    change(-weighted(key));
  }
  void resize(SampleId id, size_t bytes) {
    Key& key = blocks.at(id).key;
    Key before = key;
    record_resize(id, bytes, bytes);
    std::get<1>(key) = bytes;
    rows[before].live--;
    rows[key].live++;
    change(weighted(key) - weighted(before));
  }
  void mark() {
    set_baseline();
    for (auto& [key, counts] : rows) counts.mark_alloc = counts.alloc, counts.mark_live = counts.live;
  }
};

// What a profile must add up to for each stack and size, by value.
using Sums = std::map<std::pair<uint64_t, uint64_t>, std::vector<double>>;

void add(Sums& sums, const Key& key, std::vector<double> objects, std::vector<double> more = {}) {
  double weight = sample_weight(std::get<2>(key), std::get<3>(key));
  std::vector<double> values;
  for (double n : objects) {
    values.push_back(n * weight);
    values.push_back(n * weight * static_cast<double>(std::get<1>(key)));
  }
  for (double x : more) values.push_back(x * weight);
  if (std::all_of(values.begin(), values.end(), [](double x) { return x == 0; })) return;
  std::vector<double>& sum = sums[{std::get<0>(key) - 1, std::get<1>(key)}];
  sum.resize(values.size());
  for (size_t i = 0; i < values.size(); i++) sum[i] += values[i];
}

void expect_sums(const std::string& bytes, const Sums& expected, const char* kind) {
  SCOPED_TRACE(kind);
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int64_t>> found;
  for (const DecodedRow& row : rows_of(bytes)) {
    std::vector<int64_t>& sum = found[{row.stack.back(), std::stoull(row.labels.at("bytes"))}];
    sum.resize(row.values.size());
    for (size_t i = 0; i < sum.size(); i++) sum[i] += row.values[i];
  }
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [where, values] : expected) {
    ASSERT_EQ(found[where].size(), values.size()) << where.first << " " << where.second;
    for (size_t i = 0; i < values.size(); i++) {
      // Each row is rounded; a stack and size has at most 12 (6 sizes drawn × 2 intervals), lifetimes a few times more.
      EXPECT_NEAR(static_cast<double>(found[where][i]), values[i], 60) << where.first << " " << where.second << " value " << i;
    }
  }
}

void expect_all(const Model& model) {
  Sums allocs, peak, since, churn, lifetime, deaths;
  for (const auto& [key, c] : model.rows) {
    auto d = [](uint64_t n) { return static_cast<double>(n); };
    add(allocs, key, {d(c.alloc)});
    add(peak, key, {d(c.at_peak)});
    add(since, key, {d(c.alloc) - d(c.mark_alloc), d(c.live) - d(c.mark_live)});
    add(lifetime, key, {d(c.live), d(c.freed)});
    add(deaths, key, {d(c.freed)});
    add(churn, key, {d(c.alloc)}, {d(c.asked)});
  }
  expect_sums(written(Kind::kAllocs), allocs, "allocs");
  expect_sums(written(Kind::kPeak), peak, "peak");
  expect_sums(written(Kind::kSince), since, "since");
  expect_sums(written(Kind::kLifetime), lifetime, "lifetime");
  expect_sums(written(Kind::kDeaths), deaths, "deaths");
  // Churn has rows of stacks that only freed short-lived, resized blocks too; the rest agrees.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int64_t>> found;
  for (const DecodedRow& row : rows_of(written(Kind::kChurn))) {
    std::vector<int64_t>& sum = found[{row.stack.at(0), std::stoull(row.labels.at("bytes"))}];
    sum.resize(7);
    for (size_t i = 0; i < 7; i++) sum[i] += row.values.at(i);
  }
  for (const auto& [where, values] : churn) {
    for (size_t i = 0; i < 3; i++) EXPECT_NEAR(static_cast<double>(found[where].at(i)), values[i], 60) << "churn " << i;
  }
}

TEST(ProfileKinds, AgreeWithAModel) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Model model;
  unsigned allocs_of_100 = 60;
  for (int step = 0; step < 20000; step++) {
    if (step % 1000 == 0) allocs_of_100 = 30 + random() % 40;
    unsigned choice = random() % 100;
    if (choice < allocs_of_100 || model.blocks.empty()) {
      model.alloc(random(), random());
      continue;
    }
    auto at = model.blocks.lower_bound(static_cast<SampleId>(random() % (model.blocks.rbegin()->first + 1)));
    if (choice < 95) {
      model.free(at->first);
    } else {
      model.resize(at->first, size_t{16} << random() % 6);
    }
    if (random() % 4000 == 0) model.mark();
    if (step % 6000 == 1) expect_all(model);
  }
  expect_all(model);
  EXPECT_EQ(records.peak.bytes(), model.top);
  while (!model.blocks.empty()) model.free(model.blocks.begin()->first);
  expect_all(model);
}

// The labels and values of the rows of one stack, by their class of age.
std::map<std::string, DecodedRow> by_lifetime(uintptr_t pc) {
  std::map<std::string, DecodedRow> found;
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime))) {
    if (row.stack.at(0) != pc - 1) continue;
    std::string freed_by = row.labels.count("freed_by") != 0 ? " " + row.labels.at("freed_by") : "";
    found[row.labels.at("lifetime") + freed_by] = row;
  }
  return found;
}

TEST(ProfileKinds, LifetimesKnowAgesAndWhoFreed) {
  constexpr uintptr_t kPc = 0x900000;
  Stack stack = make_stack(kPc - 0x10000);
  record_alloc({100, 112, 1}, stack);
  SampleId old = record_alloc({100, 112, 4096}, stack), young = record_alloc({100, 112, 4096}, stack);
  SampleId passed_on = record_alloc({100, 112, 1}, stack);
  record_free(young);
  usleep(150000);
  record_free(old);
  std::thread([&] { record_free(passed_on); }).join();
  std::map<std::string, DecodedRow> rows = by_lifetime(kPc);
  int64_t weight = std::llround(sample_weight(112, 4096));
  EXPECT_EQ(rows["alive"].values, (std::vector<int64_t>{1, 112, 0, 0}));
  uint64_t freed = 0;
  for (const auto& [name, row] : rows) {
    if (name == "alive") continue;
    int64_t most = std::stoll(row.labels.at("most")), least = std::stoll(row.labels.at("least")), mean = std::stoll(row.labels.at("mean"));
    EXPECT_LE(least, mean);
    EXPECT_LE(mean, most);
    EXPECT_GE(most, 140'000'000) << name;
    if (name.find("another thread") != std::string::npos) {
      EXPECT_EQ(row.values, (std::vector<int64_t>{0, 0, 1, 112}));
      EXPECT_EQ(row.labels.at("deviation"), "0");
    } else {
      EXPECT_EQ(row.values.at(2), weight);
      EXPECT_GE(std::stoll(row.labels.at("deviation")), (most - least) / 2 - 1000) << "of two it is half of what lies between";
    }
    freed++;
  }
  EXPECT_EQ(freed, 3u);
}

SEEMALLOC_NOINLINE void free_here(SampleId id, DeathStacks wanted) {
  record_free(nullptr, id, wanted);
  asm volatile("");
}
SEEMALLOC_NOINLINE void free_there(Recorder* recorder, SampleId id, DeathStacks wanted) {
  record_free(recorder, id, wanted);
  asm volatile("");
}

// Of the rows of one place: blocks by who freed them and where, as the number of frames in front of the joint and the frame there that
// the caller is in.
struct DeathsFound {
  std::map<std::pair<std::string, size_t>, int64_t> objects;  // by freed_by and depth of the stack that freed
  std::set<std::vector<uint64_t>> stacks;
};
DeathsFound deaths_of(uintptr_t pc) {
  DeathsFound found;
  for (const DecodedRow& row : rows_of(written(Kind::kDeaths))) {
    if (row.stack.back() != pc - 1) continue;
    EXPECT_EQ(row.stack.at(row.stack.size() - 2), 0u) << "the joint";
    EXPECT_NEAR(static_cast<double>(row.values.at(1)), static_cast<double>(row.values.at(0)) * 112, 56);  // both are rounded
    found.objects[{row.labels.at("freed_by"), row.stack.size() - 2}] += row.values.at(0);
    found.stacks.insert(std::vector<uint64_t>(row.stack.begin(), row.stack.end() - 2));
  }
  return found;
}

// Its record found no memory when it was counted, but was there when its death was noted.
TEST(ProfileKinds, ADeathMoreThanWasCountedIsNoHugeRow) {
  constexpr uintptr_t kPc = 0xD00000;
  free_here(record_alloc({100, 112, 1}, make_stack(kPc - 0x10000)), {3, true});
  records.buckets.for_each([&](const Bucket& bucket) {
    if (bucket.stack->pcs()[0] != kPc) return;
    Lifetimes* lifetimes = bucket.lifetimes[static_cast<unsigned>(FreedBy::kSame)].load();
    ASSERT_NE(lifetimes, nullptr);
    records.deaths.add(*lifetimes, lifetimes->deaths()->stack, false);
  });
  std::map<std::pair<std::string, size_t>, int64_t> expected{{{"same thread", 3}, 2}};
  EXPECT_EQ(deaths_of(kPc).objects, expected);
}

TEST(ProfileKinds, DeathsKnowWhereBlocksWereFreed) {
  constexpr uintptr_t kPc = 0xB00000;
  Stack stack = make_stack(kPc - 0x10000);
  auto make = [&](uint64_t interval = 1) { return record_alloc({100, 112, interval}, stack); };
  Recorder* recorder = make_recorder();
  make();  // alive
  for (int i = 0; i < 5; i++) free_here(make(), {3, true});
  for (int i = 0; i < 7; i++) free_there(recorder, make(), {5, true});
  for (int i = 0; i < 2; i++) free_here(make(), {3, false});  // not recorded: everything is
  free_here(make(), {0, true});                              // not recorded: not wanted
  DeathsFound found = deaths_of(kPc);
  std::map<std::pair<std::string, size_t>, int64_t> expected{
      {{"same thread", 0}, 3}, {{"same thread", 3}, 5}, {{"same thread", 5}, 7}};
  EXPECT_EQ(found.objects, expected);
  EXPECT_EQ(found.stacks.size(), 3u) << "a recalled stack is the same";
  int64_t weight = std::llround(sample_weight(112, 4096));
  free_here(make(4096), {3, false});
  std::thread([&] { free_here(make(4096), {4, false}); }).join();
  expected[{"same thread", 3}] += weight;
  expected[{"same thread", 4}] += weight;
  SampleId passed_on = make();
  std::thread([&] { free_here(passed_on, {4, true}); }).join();
  expected[{"another thread", 4}] = 1;
  EXPECT_EQ(deaths_of(kPc).objects, expected);
  std::string text = comments(written(Kind::kDeaths));
  EXPECT_NE(text.find("deaths: "), std::string::npos) << text;
  EXPECT_EQ(decode(written(Kind::kDeaths)).numbers.count(7), 0u) << "drop_frames would cut the second stack";
  EXPECT_EQ(decode(written(Kind::kHeap)).numbers.count(7), 1u);
}

TEST(ProfileKinds, ChurnKnowsShortLivesAndCopies) {
  constexpr uintptr_t kPc = 0xA00000;
  Stack stack = make_stack(kPc - 0x10000);
  for (int i = 0; i < 20; i++) record_free(record_alloc({100, 112, 1}, stack));
  for (int i = 0; i < 5; i++) record_alloc({90, 112, 1, true}, stack);
  SampleId old = record_alloc({100, 112, 1}, stack);
  usleep(50000);
  record_free(old);
  std::vector<int64_t> sum(7);
  for (const DecodedRow& row : rows_of(written(Kind::kChurn))) {
    for (size_t i = 0; i < 7 && row.stack.at(0) == kPc - 1; i++) sum[i] += row.values.at(i);
  }
  EXPECT_EQ(sum[0], 26);
  EXPECT_EQ(sum[1], 26 * 112);
  EXPECT_EQ(sum[2], 21 * 100 + 5 * 90);
  EXPECT_EQ(sum[3], 5);
  EXPECT_EQ(sum[4], 5 * 112);
  EXPECT_LE(sum[5], 20);
  EXPECT_GE(sum[5], 15) << "this thread cannot have been kept from running that often";
  EXPECT_EQ(sum[6], sum[5] * 112);
}

TEST(ProfileKinds, SayWhatTheyAre) {
  SampleId id = record_alloc({100, 112, 1}, make_stack(1));
  for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++) {
    std::string text = comments(written(static_cast<Kind>(kind)));
    EXPECT_NE(text.find("exactly 12345 bytes are handed out"), std::string::npos) << text;
    EXPECT_NE(text.find("more dropped for want of memory"), std::string::npos) << text;
    EXPECT_NE(text.find("samples with a broken unwind"), std::string::npos) << text;
  }
  EXPECT_NE(comments(written(Kind::kPeak)).find("peak: "), std::string::npos);
  EXPECT_NE(comments(written(Kind::kPeak)).find(" bytes per thread from the highest mark of "), std::string::npos);
  EXPECT_NE(comments(written(Kind::kHeap, 77)).find(" samples were drawn at another interval"), std::string::npos);
  set_baseline();
  EXPECT_NE(comments(written(Kind::kSince)).find("the baseline was set "), std::string::npos);
  EXPECT_LT(decode(written(Kind::kSince)).numbers[10], 60'000'000'000u);
  EXPECT_GT(decode(written(Kind::kAllocs)).numbers[10], 0u) << "the time it covers";
  record_free(id);
}

// Frees that cannot be noted are counted, and all else stays right.
TEST(ProfileKinds, LifetimesAreLostAndCountedWhenMemoryIsRefused) {
  constexpr uintptr_t kFirst = 0x1000000;
  std::vector<SampleId> ids;
  for (uintptr_t i = 0; i < 30000; i++) ids.push_back(record_alloc({100, 112, 1}, make_stack(kFirst + i)));
  uint64_t before = records.lost_lifetimes.load();
  os::fault_hook = [](long number) -> long { return number == SYS_mmap ? -12 : 0; };
  for (SampleId id : ids) record_free(id);
  os::fault_hook = nullptr;
  EXPECT_GT(records.lost_lifetimes.load(), before);
  for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++) {
    EXPECT_NE(comments(written(static_cast<Kind>(kind))).find(" lifetimes of freed samples lost"), std::string::npos);
  }
  uint64_t alive = 0;
  for (const DecodedRow& row : rows_of(written(Kind::kHeap))) {
    if (row.stack.at(0) >= kFirst + 0x10000 - 1) alive += static_cast<uint64_t>(row.values.at(2));
  }
  EXPECT_EQ(alive, 0u);
}

// Profiles of all kinds and new baselines, while threads allocate, resize and free.
TEST(ProfileKinds, CanBeTakenWhileThreadsRun) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<SampleId> mine;
      while (!stop.load()) {
        if (mine.size() < 500 || random() % 2 == 0) {
          mine.push_back(record_alloc({100, size_t{128} << random() % 4, 1}, make_stack(random() % 50)));
        } else {
          record_free(mine.back());
          mine.pop_back();
        }
        if (mine.size() > 1000) record_resize(mine.front(), 200, 256);
        while (mine.size() > 2000) {
          record_free(mine.back());
          mine.pop_back();
        }
      }
      for (SampleId id : mine) record_free(id);
    });
  }
  for (int round = 0; round < 10; round++) {
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++) ASSERT_FALSE(written(static_cast<Kind>(kind)).empty());
    set_baseline();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const DecodedRow& row : rows_of(written(Kind::kPeak))) {
    for (int64_t value : row.values) EXPECT_GE(value, 0);
  }
}

}  // namespace
}  // namespace seemalloc::profile
