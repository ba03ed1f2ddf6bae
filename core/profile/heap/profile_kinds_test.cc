// Tests the kinds of profiles against a model. A program of its own, so that there are no other
// samples.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/compiler.h"
#include "core/base/repetitions_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/thread_numbers.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/sampling/sampler.h"

namespace seemalloc::profile {
namespace {

uint64_t exact_allocated = 1'000'000;

std::string written(Kind kind, uint64_t interval = 1) {
  Buffer buffer;
  if (!heap_profile_to_buffer(&buffer, interval, kind, {12345, exact_allocated, 456'789}))
    return "";
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

// Rows with the same stack, size and drawn size are one bucket. Only samples are counted, because
// weights differ.
// Stack, allocated, drawn, interval.
using Key = std::tuple<uintptr_t, size_t, size_t, uint64_t>;
struct Counts {
  uint64_t alloc = 0, live = 0, freed = 0, asked = 0, at_peak = 0, baseline_alloc_samples = 0,
           baseline_live_samples = 0;
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
    for (auto& [key, counts] : rows)
      counts.baseline_alloc_samples = counts.alloc, counts.baseline_live_samples = counts.live;
  }
};

// The expected sums of a profile for each stack and size, by value.
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
      // Each row is rounded. A stack and size has at most 12 rows (6 drawn sizes × 2 intervals), in
      // lifetimes a few times more.
      EXPECT_NEAR(static_cast<double>(found[where][i]), values[i], 60)
          << where.first << " " << where.second << " value " << i;
    }
  }
}

void expect_all(const Model& model) {
  Sums allocs, peak, since, churn, lifetime, deaths;
  for (const auto& [key, c] : model.rows) {
    auto d = [](uint64_t n) { return static_cast<double>(n); };
    add(allocs, key, {d(c.alloc)});
    add(peak, key, {d(c.at_peak)});
    add(since, key,
        {d(c.alloc) - d(c.baseline_alloc_samples), d(c.live) - d(c.baseline_live_samples)});
    add(lifetime, key, {d(c.live), d(c.freed)});
    add(deaths, key, {d(c.freed)});
    add(churn, key, {d(c.alloc)}, {d(c.asked)});
  }
  expect_sums(written(Kind::kAllocs), allocs, "allocs");
  expect_sums(written(Kind::kPeak), peak, "peak");
  expect_sums(written(Kind::kSince), since, "since");
  for (const DecodedRow& row : rows_of(written(Kind::kSince))) {
    int64_t differing = std::stoll(row.labels.at("differing"));
    EXPECT_GE(differing, std::abs(row.values.at(2)) - 1) << "blocks of the difference at least";
  }
  expect_sums(written(Kind::kLifetime), lifetime, "lifetime");
  expect_sums(written(Kind::kDeaths), deaths, "deaths");
  // Churn also has rows of stacks that only freed short-lived, resized blocks; the rest agrees.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int64_t>> found;
  for (const DecodedRow& row : rows_of(written(Kind::kChurn))) {
    std::vector<int64_t>& sum = found[{row.stack.at(0), std::stoull(row.labels.at("bytes"))}];
    sum.resize(7);
    for (size_t i = 0; i < 7; i++) sum[i] += row.values.at(i);
  }
  for (const auto& [where, values] : churn) {
    for (size_t i = 0; i < 3; i++)
      EXPECT_NEAR(static_cast<double>(found[where].at(i)), values[i], 60) << "churn " << i;
  }
}

TEST(ProfileKinds, AgreeWithAModel) {
  uint64_t seed = seed_for_test();
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
    auto at = model.blocks.lower_bound(
        static_cast<SampleId>(random() % (model.blocks.rbegin()->first + 1)));
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

// An interval that means "not all blocks are recorded"; the weight of each sample is 1 anyway.
constexpr uint64_t kSampledInterval = 2;

// Makes live bytes large once, so that there may be the maximum number of lifetime records by
// thread.
void reserve_lifetime_records() {
  record_free(record_alloc({GiB, GiB, kSampledInterval}, make_stack(1)));
  ASSERT_EQ(max_thread_lifetimes(), ThreadLifetimesTable::kMaxRecords);
}

// A sample whose stack is only the call in this function, regardless of the caller.
SEEMALLOC_NOINLINE SampleId sample_here(Recorder* recorder) {
  SampleId id = record_alloc(recorder, {100, 112, kSampledInterval}, 0, 1);
  asm volatile("");
  return id;
}

// The labels and values of the rows of one stack, by age class.
std::map<std::string, DecodedRow> by_lifetime(uintptr_t pc) {
  std::map<std::string, DecodedRow> found;
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime))) {
    if (row.stack.at(0) != pc - 1) continue;
    std::string freed_by = row.labels.count("freed_by") != 0 ? " " + row.labels.at("freed_by") : "";
    found[row.labels.at("lifetime") + freed_by] = row;
  }
  return found;
}

TEST(ProfileKinds, LifetimesRecordAgesAndFreeingThreads) {
  os::advance_test_clock(0);  // from here on time passes only by such calls
  constexpr uintptr_t kPc = 0x900000;
  Stack stack = make_stack(kPc - 0x10000);
  record_alloc({100, 112, 1}, stack);
  SampleId old = record_alloc({100, 112, 4096}, stack),
           young = record_alloc({100, 112, 4096}, stack);
  SampleId passed_on = record_alloc({100, 112, 1}, stack);
  record_free(young);
  os::advance_test_clock(150 * kMillisecondNs);
  record_free(old);
  std::thread([&] { record_free(passed_on); }).join();
  std::map<std::string, DecodedRow> rows = by_lifetime(kPc);
  int64_t weight = std::llround(sample_weight(112, 4096));
  EXPECT_EQ(rows["alive"].values, (std::vector<int64_t>{1, 112, 0, 0}));
  uint64_t freed = 0;
  for (const auto& [name, row] : rows) {
    if (name == "alive") continue;
    int64_t most = std::stoll(row.labels.at("most")), least = std::stoll(row.labels.at("least")),
            mean = std::stoll(row.labels.at("mean"));
    EXPECT_LE(least, mean);
    EXPECT_LE(mean, most);
    EXPECT_EQ(most, 150'000'000) << name;
    if (name.find("another thread") != std::string::npos) {
      EXPECT_EQ(row.values, (std::vector<int64_t>{0, 0, 1, 112}));
      EXPECT_EQ(row.labels.at("deviation"), "0");
    } else {
      EXPECT_EQ(row.values.at(2), weight);
      EXPECT_GE(std::stoll(row.labels.at("deviation")), (most - least) / 2 - 1000)
          << "of two it is half of what lies between";
    }
    freed++;
  }
  EXPECT_EQ(freed, 3u);
}

// A lifetime profile's figures for one stack, by thread and by the fate of the blocks.
std::map<std::pair<std::string, std::string>, int64_t> lifetimes_of(uintptr_t pc) {
  std::map<std::pair<std::string, std::string>, int64_t> found;
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime))) {
    if (row.stack.at(0) != pc - 1) continue;
    bool alive = row.labels.at("lifetime") == "alive";
    std::string what =
        alive ? "alive"
              : (std::stoll(row.labels.at("mean")) > 100'000'000 ? "old, " : "young, ") +
                    row.labels.at("freed_by");
    found[{row.labels.at("thread"), what}] += row.values.at(alive ? 0 : 2);
    EXPECT_EQ(row.labels.count("tid"), row.labels.at("thread") == "(other threads)" ? 0u : 1u);
  }
  return found;
}

template <typename F>
void as_thread(const char* name, F f) {
  std::thread([&] {
    prctl(PR_SET_NAME, name);
    f();
    retire_thread_number();
  }).join();
}

// The thread that made the bucket, a later one, and one that frees blocks of the first.
TEST(ProfileKinds, LifetimesKnowTheThread) {
  os::advance_test_clock(0);  // from here on time passes only by such calls
  reserve_lifetime_records();
  // With a recorder, a bucket belongs to its maker, as for threads of a real program.
  Recorder* recorder = make_recorder();
  SampleId passed_on = 0;
  uintptr_t pc = 0;
  std::vector<SampleId> left;
  as_thread("first", [&] {
    std::vector<SampleId> ids;
    for (int i = 0; i < 6; i++) ids.push_back(sample_here(recorder));
    for (int i = 0; i < 3; i++) record_free(recorder, ids[i]);
    passed_on = ids[4];
    left = {ids[3], ids[5]};
    pc = records.live.get(ids[5]).bucket->stack->pcs()[0];
    EXPECT_NE(records.live.get(ids[5]).bucket->owner, 0u);
  });
  os::advance_test_clock(150 * kMillisecondNs);
  as_thread("second", [&] {
    adopt_recorder(*recorder);
    record_free(recorder, passed_on);
    std::vector<SampleId> ids;
    for (int i = 0; i < 4; i++) ids.push_back(sample_here(recorder));
    EXPECT_EQ(records.live.get(ids[0]).bucket->stack->pcs()[0], pc);
    os::advance_test_clock(150 * kMillisecondNs);
    for (int i = 0; i < 2; i++) record_free(recorder, ids[i]);
    left.insert(left.end(), ids.begin() + 2, ids.end());
  });
  std::map<std::pair<std::string, std::string>, int64_t> expected{
      {{"first", "alive"}, 2},
      {{"first", "young, same thread"}, 3},
      {{"first", "old, another thread"}, 1},
      {{"second", "alive"}, 2},
      {{"second", "old, same thread"}, 2}};
  EXPECT_EQ(lifetimes_of(pc), expected);
  for (SampleId id : left) record_free(id);
}

// Threads allocate at the same places and free each other's blocks. A model records the fate of
// each thread's blocks. The sums over threads equal the counts of the buckets.
TEST(ProfileKinds, LifetimesByThreadAgreeWithAModel) {
  reserve_lifetime_records();
  constexpr uintptr_t kFirst = 0x920000, kPlaces = 7;
  constexpr int kThreads = 4;
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  // Thread, place, freed by or alive.
  using Who = std::tuple<std::string, uintptr_t, std::string>;
  std::mutex lock;
  std::map<Who, int64_t> model;
  struct Block {
    SampleId id;
    int thread;
    uintptr_t place;
  };
  std::vector<Block> shared;
  auto name_of = [](int t) { return "model" + std::to_string(t); };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      prctl(PR_SET_NAME, name_of(t).c_str());
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      for (int i = 0; i < 20000; i++) {
        Block block{0, t, 0};
        if (random() % 2 == 0) {
          block.place = random() % kPlaces;
          block.id = record_alloc({100, 112, kSampledInterval},
                                  make_stack(kFirst + block.place - 0x10000));
          std::lock_guard<std::mutex> guard(lock);
          shared.push_back(block);
          model[{name_of(t), block.place, "alive"}]++;
          continue;
        }
        {
          std::lock_guard<std::mutex> guard(lock);
          if (shared.empty()) continue;
          std::swap(shared[random() % shared.size()], shared.back());
          block = shared.back();
          shared.pop_back();
          model[{name_of(block.thread), block.place, "alive"}]--;
          model[{name_of(block.thread), block.place,
                 block.thread == t ? "same thread" : "another thread"}]++;
        }
        record_free(block.id);
      }
      retire_thread_number();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<Who, int64_t> found;
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime))) {
    uintptr_t place = row.stack.at(0) + 1 - kFirst;
    if (place >= kPlaces) continue;
    bool alive = row.labels.at("lifetime") == "alive";
    found[{row.labels.at("thread"), place, alive ? "alive" : row.labels.at("freed_by")}] +=
        row.values.at(alive ? 0 : 2);
    if (!alive) EXPECT_LE(std::stoll(row.labels.at("least")), std::stoll(row.labels.at("most")));
  }
  std::erase_if(model, [](const auto& one) { return one.second == 0; });
  EXPECT_EQ(found, model);
  for (const Block& block : shared) record_free(block.id);
}

// If all blocks are recorded, frees are known by thread only for the maker of the bucket, unless
// more is requested.
TEST(ProfileKinds, LifetimesKnowLessOfThreadsWhereAllAreRecorded) {
  reserve_lifetime_records();
  for (bool of_all : {false, true}) {
    constexpr uintptr_t kFirst = 0x940000;
    uintptr_t pc = kFirst + (of_all ? 1 : 0);
    as_thread("brief", [&] {
      record_free(nullptr, record_alloc({100, 112, 1}, make_stack(pc - 0x10000)), {0, of_all});
    });
    auto found = lifetimes_of(pc);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found.begin()->first.first, of_all ? "brief" : "(other threads)");
  }
}

// One sample each from many threads: rounded separately, their sum would be a quarter less.
TEST(ProfileKinds, LifetimesOfThreadsAddUpToTheEstimate) {
  reserve_lifetime_records();
  constexpr uintptr_t kPlace = 0x950000;
  constexpr int kThreads = 64;
  constexpr size_t kBytes = 716800, kInterval = 524288;
  std::vector<SampleId> ids;
  for (int t = 0; t < kThreads; t++) {
    as_thread("large", [&] {
      ids.push_back(record_alloc({kBytes, kBytes, kInterval}, make_stack(kPlace - 0x10000)));
      record_free(record_alloc({kBytes, kBytes, kInterval}, make_stack(kPlace - 0x10000)));
    });
  }
  int64_t sums[4] = {};
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime, kInterval))) {
    if (row.stack.at(0) != kPlace - 1) continue;
    for (size_t i = 0; i < 4; i++) sums[i] += row.values.at(i);
  }
  double objects = kThreads / (1 - std::exp(-double{kBytes} / double{kInterval}));
  for (size_t i : {0u, 2u}) {
    EXPECT_NEAR(static_cast<double>(sums[i]), objects, 1);
    EXPECT_NEAR(static_cast<double>(sums[i + 1]), objects * double{kBytes}, kBytes / 2.0);
  }
  for (SampleId id : ids) record_free(id);
}

// Far more threads than records: the sums are unchanged, and later threads are distinguished.
TEST(ProfileKinds, LifetimesOfManyThreadsAreBounded) {
  reserve_lifetime_records();
  constexpr uintptr_t kFirst = 0x930000, kPlaces = 40;
  constexpr size_t kThreads = 3 * ThreadLifetimesTable::kMaxRecords / kPlaces;
  auto work = [&] {
    for (uintptr_t i = 0; i < kPlaces; i++)
      record_free(record_alloc({100, 112, kSampledInterval}, make_stack(kFirst + i - 0x10000)));
  };
  for (size_t t = 0; t < kThreads; t++) as_thread("many", work);
  EXPECT_LE(records.thread_lifetimes.size(), ThreadLifetimesTable::kMaxRecords);
  as_thread("last", work);
  std::map<std::string, int64_t> freed;
  for (const DecodedRow& row : rows_of(written(Kind::kLifetime))) {
    if (row.stack.at(0) + 1 - kFirst < kPlaces) freed[row.labels.at("thread")] += row.values.at(2);
  }
  EXPECT_EQ(freed["many"] + freed["last"] + freed["(other threads)"],
            static_cast<int64_t>((kThreads + 1) * kPlaces));
  EXPECT_GT(freed["(other threads)"], 0);
  EXPECT_EQ(freed["last"], static_cast<int64_t>(kPlaces));
  EXPECT_NE(comments(written(Kind::kLifetime)).find("samples freed are of (other threads)"),
            std::string::npos);
}

SEEMALLOC_NOINLINE void free_on_this_thread(SampleId id, FreeStackOptions wanted) {
  record_free(nullptr, id, wanted);
  asm volatile("");
}
SEEMALLOC_NOINLINE void free_with_recorder(Recorder* recorder, SampleId id,
                                           FreeStackOptions wanted) {
  record_free(recorder, id, wanted);
  asm volatile("");
}

// The rows of one place: objects by freeing thread and by the depth of the freeing stack; and the
// freeing stacks.
struct DeathsFound {
  // By freed_by and depth of the stack that freed.
  std::map<std::pair<std::string, size_t>, int64_t> objects;
  std::set<std::vector<uint64_t>> stacks;
};
DeathsFound deaths_of(uintptr_t pc) {
  DeathsFound found;
  for (const DecodedRow& row : rows_of(written(Kind::kDeaths))) {
    if (row.stack.back() != pc - 1) continue;
    EXPECT_EQ(row.stack.at(row.stack.size() - 2), 0u) << "the joint";
    // Both are rounded.
    EXPECT_NEAR(static_cast<double>(row.values.at(1)), static_cast<double>(row.values.at(0)) * 112,
                56);
    found.objects[{row.labels.at("freed_by"), row.stack.size() - 2}] += row.values.at(0);
    found.stacks.insert(std::vector<uint64_t>(row.stack.begin(), row.stack.end() - 2));
  }
  return found;
}

// The record got no memory when the free was counted, but existed when the death was noted.
TEST(ProfileKinds, ADeathMoreThanWasCountedIsNoHugeRow) {
  constexpr uintptr_t kPc = 0xD00000;
  free_on_this_thread(record_alloc({100, 112, 1}, make_stack(kPc - 0x10000)), {3, true});
  records.buckets.for_each([&](const Bucket& bucket) {
    if (bucket.stack->pcs()[0] != kPc) return;
    Lifetimes* lifetimes = bucket.lifetimes(FreedBy::kSameThread);
    ASSERT_NE(lifetimes, nullptr);
    records.free_stacks.add(*lifetimes, lifetimes->free_stacks()->stack, false);
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
  for (int i = 0; i < 5; i++) free_on_this_thread(make(), {3, true});
  for (int i = 0; i < 7; i++) free_with_recorder(recorder, make(), {5, true});
  // Not recorded, because every block is.
  for (int i = 0; i < 2; i++) free_on_this_thread(make(), {3, false});
  free_on_this_thread(make(), {0, true});  // not recorded, because it is not requested
  DeathsFound found = deaths_of(kPc);
  std::map<std::pair<std::string, size_t>, int64_t> expected{
      {{"same thread", 0}, 3}, {{"same thread", 3}, 5}, {{"same thread", 5}, 7}};
  EXPECT_EQ(found.objects, expected);
  EXPECT_EQ(found.stacks.size(), 3u) << "a recalled stack is the same";
  int64_t weight = std::llround(sample_weight(112, 4096));
  free_on_this_thread(make(4096), {3, false});
  std::thread([&] { free_on_this_thread(make(4096), {4, false}); }).join();
  expected[{"same thread", 3}] += weight;
  expected[{"same thread", 4}] += weight;
  SampleId passed_on = make();
  std::thread([&] { free_on_this_thread(passed_on, {4, true}); }).join();
  expected[{"another thread", 4}] = 1;
  EXPECT_EQ(deaths_of(kPc).objects, expected);
  std::string text = comments(written(Kind::kDeaths));
  EXPECT_NE(text.find("deaths: "), std::string::npos) << text;
  EXPECT_EQ(decode(written(Kind::kDeaths)).numbers.count(7), 0u)
      << "drop_frames would cut the second stack";
  EXPECT_EQ(decode(written(Kind::kHeap)).numbers.count(7), 1u);
}

TEST(ProfileKinds, ChurnKnowsShortLivesAndCopies) {
  os::advance_test_clock(0);  // from here on time passes only by such calls
  constexpr uintptr_t kPc = 0xA00000;
  Stack stack = make_stack(kPc - 0x10000);
  for (int i = 0; i < 20; i++) record_free(record_alloc({100, 112, 1}, stack));
  for (int i = 0; i < 5; i++) record_alloc({90, 112, 1, true}, stack);
  SampleId old = record_alloc({100, 112, 1}, stack);
  os::advance_test_clock(50 * kMillisecondNs);
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
  EXPECT_EQ(sum[5], 20);
  EXPECT_EQ(sum[6], 20 * 112);
}

TEST(ProfileKinds, DescribeTheirContents) {
  SampleId id = record_alloc({100, 112, 1}, make_stack(1));
  for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++) {
    std::string text = comments(written(static_cast<Kind>(kind)));
    EXPECT_NE(text.find("exactly 12345 live bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("more dropped for lack of memory"), std::string::npos) << text;
    EXPECT_NE(text.find("samples with a broken unwind"), std::string::npos) << text;
  }
  EXPECT_NE(comments(written(Kind::kPeak)).find("peak: "), std::string::npos);
  EXPECT_NE(comments(written(Kind::kPeak)).find(" bytes per thread from the highest mark of "),
            std::string::npos);
  EXPECT_NE(comments(written(Kind::kHeap, 77)).find(" samples were drawn at another interval"),
            std::string::npos);
  for (Kind kind : {Kind::kHeap, Kind::kRemoteFrees, Kind::kAllocs, Kind::kChurn, Kind::kLifetime,
                    Kind::kDeaths}) {
    SampleTotals totals = sample_totals();
    std::string wanted = "allocated: " + std::to_string(std::llround(totals.alloc_bytes)) +
                         " bytes estimated, standard error " +
                         std::to_string(std::llround(totals.alloc_bytes_stderr)) +
                         " bytes; exactly 1000000 bytes since the start\n";
    EXPECT_NE(comments(written(kind)).find(wanted), std::string::npos)
        << comments(written(kind)) << wanted;
  }
  for (Kind kind : {Kind::kPeak, Kind::kRemoteFrees}) {
    EXPECT_NE(comments(written(kind)).find("there is no exact total: frees are not counted"),
              std::string::npos)
        << comments(written(kind));
  }
  for (Kind kind : {Kind::kPeak, Kind::kThreads})
    EXPECT_EQ(comments(written(kind)).find("allocated: "), std::string::npos);
  set_baseline({12345, 1'000'000});
  EXPECT_NE(comments(written(Kind::kSince)).find("the baseline was set "), std::string::npos);
  EXPECT_LT(decode(written(Kind::kSince)).numbers[10], 60'000'000'000u);
  EXPECT_GT(decode(written(Kind::kAllocs)).numbers[10], 0u) << "the time it covers";
  record_free(id);
}

// Each figure is the sum of the rows with its standard error; blocks freed by another thread are a
// part.
TEST(ProfileKinds, ReportFreedBytesExactlyAndWithTheirError) {
  constexpr uint64_t kInterval = 4096;
  struct Said {
    double bytes, error;
    explicit Said(Kind kind) {
      std::string all = comments(written(kind)),
                  head = kind == Kind::kRemoteFrees ? "\nfreed by another thread: " : "\nfreed: ";
      size_t at = all.find(head);
      EXPECT_NE(at, std::string::npos) << all;
      if (at == std::string::npos ||
          sscanf(all.c_str() + at + head.size(), "%lf bytes estimated, standard error %lf bytes",
                 &bytes, &error) != 2)
        bytes = error = -1;
      if (kind != Kind::kRemoteFrees)
        EXPECT_NE(all.find("; exactly 456789 bytes since the start\n", at), std::string::npos)
            << all;
    }
  };
  constexpr Kind kKinds[] = {Kind::kLifetime, Kind::kDeaths, Kind::kRemoteFrees};
  // The stated error allows for one more block of the largest weight: it is the same before and
  // after.
  SampleId largest = record_alloc({1024, 1024, kInterval}, make_stack(93));
  std::thread([&] { record_free(largest); }).join();
  std::vector<Said> before(std::begin(kKinds), std::end(kKinds));
  for (int i = 0; i < 7; i++) record_free(record_alloc({1024, 1024, kInterval}, make_stack(91)));
  SampleId passed_on = record_alloc({512, 512, kInterval}, make_stack(92));
  std::thread([&] { record_free(passed_on); }).join();
  SampleId held = record_alloc({512, 512, kInterval}, make_stack(92));
  double small = sample_weight(512, kInterval), large = sample_weight(1024, kInterval);
  double elsewhere = small * 512, elsewhere_square = small * (small - 1) * 512 * 512;
  for (int k = 0; k < 3; k++) {
    bool remote = kKinds[k] == Kind::kRemoteFrees;
    double bytes = elsewhere + (remote ? 0 : 7 * large * 1024);
    double square = elsewhere_square + (remote ? 0 : 7 * large * (large - 1) * 1024 * 1024);
    Said now(kKinds[k]);
    EXPECT_NEAR(now.bytes - before[k].bytes, bytes, 1);
    EXPECT_NEAR(now.error, std::sqrt(before[k].error * before[k].error + square), 1);
    int64_t sum = 0;
    std::vector<DecodedRow> rows = rows_of(written(kKinds[k]));
    for (const DecodedRow& row : rows) sum += row.values.back();
    EXPECT_NEAR(now.bytes, static_cast<double>(sum), static_cast<double>(rows.size()) / 2 + 1)
        << "rows are rounded";
  }
  record_free(held);
}

// Only allocations since the baseline count, regardless of earlier ones and of frees.
TEST(ProfileKinds, SinceReportsAllocatedBytesExactlyAndWithTheirError) {
  constexpr uint64_t kInterval = 4096;
  std::vector<SampleId> ids;
  auto record = [&](int count, size_t bytes) {
    for (int i = 0; i < count; i++)
      ids.push_back(record_alloc({bytes, bytes, kInterval}, make_stack(77)));
  };
  record(10, 1024);
  exact_allocated = 500'000;
  set_baseline({12345, exact_allocated});
  EXPECT_NE(
      comments(written(Kind::kSince))
          .find(
              "allocated: 0 bytes estimated, standard error 0 bytes; exactly 0 bytes since the baseline\n"),
      std::string::npos)
      << comments(written(Kind::kSince));
  record(3, 1024);
  record(2, 512);
  exact_allocated += 17'000;
  auto said = [] {
    double small = sample_weight(512, kInterval), large = sample_weight(1024, kInterval);
    double bytes = 2 * small * 512 + 3 * large * 1024;
    double one_more = large * 1024;
    double error = std::sqrt(2 * small * (small - 1) * 512 * 512 +
                             3 * large * (large - 1) * 1024 * 1024 + one_more * one_more);
    return "allocated: " + std::to_string(std::llround(bytes)) +
           " bytes estimated, standard error " + std::to_string(std::llround(error)) +
           " bytes; exactly 17000 bytes since the baseline\n";
  };
  EXPECT_NE(comments(written(Kind::kSince)).find(said()), std::string::npos)
      << comments(written(Kind::kSince)) << said();
  for (SampleId id : ids) record_free(id);
  EXPECT_NE(comments(written(Kind::kSince)).find(said()), std::string::npos) << "freed or not";
  EXPECT_NE(comments(written(Kind::kSince))
                .find("; live bytes changed by exactly 0, by allocated size\n"),
            std::string::npos)
      << comments(written(Kind::kSince));
  set_baseline({20000, exact_allocated});
  EXPECT_NE(comments(written(Kind::kSince))
                .find("; live bytes changed by exactly -7655, by allocated size\n"),
            std::string::npos)
      << comments(written(Kind::kSince));
  set_baseline();
  EXPECT_EQ(comments(written(Kind::kSince)).find("live bytes changed by"), std::string::npos);
  EXPECT_EQ(comments(written(Kind::kSince)).find(" since the baseline\n"), std::string::npos)
      << "what it was at the baseline is not known";
  exact_allocated = 1'000'000;
}

// Frees that cannot be recorded are counted, and everything else stays correct.
TEST(ProfileKinds, LifetimesAreLostAndCountedWhenMemoryIsRefused) {
  constexpr uintptr_t kFirst = 0x1000000;
  std::vector<SampleId> ids;
  for (uintptr_t i = 0; i < 30000; i++)
    ids.push_back(record_alloc({100, 112, 1}, make_stack(kFirst + i)));
  uint64_t before = records.lost_lifetimes.load();
  os::fault_hook = [](long number) -> long { return number == SYS_mmap ? -12 : 0; };
  for (SampleId id : ids) record_free(id);
  os::fault_hook = nullptr;
  EXPECT_GT(records.lost_lifetimes.load(), before);
  for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++) {
    EXPECT_NE(comments(written(static_cast<Kind>(kind))).find(" lifetimes of freed samples lost"),
              std::string::npos);
  }
  uint64_t alive = 0;
  for (const DecodedRow& row : rows_of(written(Kind::kHeap))) {
    if (row.stack.at(0) >= kFirst + 0x10000 - 1) alive += static_cast<uint64_t>(row.values.at(2));
  }
  EXPECT_EQ(alive, 0u);
}

// Takes profiles of all kinds and sets baselines, while threads allocate, resize and free.
TEST(ProfileKinds, CanBeTakenWhileThreadsRun) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed_for_test() + static_cast<unsigned>(t));
      std::vector<SampleId> mine;
      while (!stop.load()) {
        if (mine.size() < 500 || random() % 2 == 0) {
          mine.push_back(
              record_alloc({100, size_t{128} << random() % 4, 1}, make_stack(random() % 50)));
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
  for (int round = 0; round < repetitions(10); round++) {
    for (int kind = 0; kind < static_cast<int>(Kind::kCount); kind++)
      ASSERT_FALSE(written(static_cast<Kind>(kind)).empty());
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
