#include "core/profile/python/python_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/profile/sampling/intern_table.h"

namespace seemalloc::profile {
namespace {

using Small = PythonNameTable<8, 2, 64>;
using Large = PythonNameTable<1024, 16, 1 << 16>;

template <typename Table>
std::unique_ptr<Table, void (*)(void*)> make() {
  return {static_cast<Table*>(calloc(1, sizeof(Table))), free};
}

uint64_t key(uint64_t n) { return mix(n, 1) | 1; }

template <typename Table>
std::string name_of(const Table& table, uint32_t number) {
  auto function = table.function(number);
  return std::string(function.name.data, function.name.bytes) + " " +
         std::string(function.file.data, function.file.bytes) + ":" +
         std::to_string(function.first_line);
}

TEST(PythonNames, AreFoundAgain) {
  auto table = make<Large>();
  uint32_t file = table->add_file(key(1), "a.py", 4);
  uint32_t f = table->add_function(key(2), "f", 1, file, 10),
           g = table->add_function(key(3), "C.g", 3, file, 20);
  EXPECT_NE(f, g);
  EXPECT_EQ(table->find_function(key(2)), f);
  EXPECT_EQ(table->find_function(key(4)), 0u);
  EXPECT_EQ(table->find_file(key(1)), file);
  EXPECT_EQ(table->add_function(key(2), "other", 5, file, 1), f);
  EXPECT_EQ(name_of(*table, f), "f a.py:10");
  EXPECT_EQ(name_of(*table, g), "C.g a.py:20");
  EXPECT_EQ(name_of(*table, 0), "(other Python functions) :0");
  EXPECT_EQ(name_of(*table, 5000), "(other Python functions) :0");
}

TEST(PythonNames, AreRefusedWhenTheTableIsFull) {
  auto table = make<Small>();
  uint32_t file = table->add_file(key(1), "a.py", 4);
  for (uint64_t n = 0; n < 8; n++) EXPECT_NE(table->add_function(key(10 + n), "f", 1, file, 1), 0u);
  EXPECT_EQ(table->add_function(key(30), "f", 1, file, 1), 0u);
  for (uint64_t n = 0; n < 8; n++) EXPECT_NE(table->find_function(key(10 + n)), 0u);
  EXPECT_EQ(table->find_function(key(30)), 0u);
}

TEST(PythonNames, AreRefusedWithoutMemoryForTheirTexts) {
  auto table = make<Small>();
  std::string path(60, 'x');
  EXPECT_NE(table->add_file(key(1), path.data(), path.size()), 0u);
  EXPECT_EQ(table->add_file(key(2), path.data(), path.size()), 0u);
  EXPECT_EQ(table->add_function(key(3), "long name", 9, 1, 1), 0u);
  EXPECT_EQ(table->find_function(key(3)), 0u);
  EXPECT_NE(table->add_function(key(4), "f", 1, 1, 1), 0u);
}

TEST(PythonNames, AreOneForThreadsThatComeTogether) {
  auto table = make<Large>();
  uint32_t file = table->add_file(key(1), "a.py", 4);
  constexpr uint64_t kFunctions = 200;
  std::vector<std::vector<uint32_t>> numbers(4, std::vector<uint32_t>(kFunctions));
  std::vector<std::thread> threads;
  for (auto& mine : numbers) {
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < kFunctions; n++) {
        std::string name = "f" + std::to_string(n);
        mine[n] = table->add_function(key(100 + n), name.data(), name.size(), file,
                                      static_cast<int32_t>(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t n = 0; n < kFunctions; n++) {
    for (const auto& others : numbers) EXPECT_EQ(others[n], numbers[0][n]);
    EXPECT_EQ(name_of(*table, numbers[0][n]),
              "f" + std::to_string(n) + " a.py:" + std::to_string(n));
  }
}

TEST(PythonNames, CacheLinesOfAddresses) {
  auto table = make<Small>();
  uint32_t line;
  EXPECT_FALSE(table->find_line(key(1), &line));
  table->cache_line(key(1), 77);
  EXPECT_TRUE(table->find_line(key(1), &line));
  EXPECT_EQ(line, 77u);
  EXPECT_FALSE(table->find_line(key(1) + (uint64_t{1} << 32), &line));
}

using Codes = PythonCodeCache<4>;

PythonCode code_at(uintptr_t address) {
  return {address,
          address * 3,
          address * 5,
          static_cast<int32_t>(address * 7),
          static_cast<uint32_t>(address * 11),
          address % 16 == 8};
}
bool operator==(const PythonCode& a, const PythonCode& b) {
  return a.address == b.address && a.lines == b.lines && a.units == b.units &&
         a.first_line == b.first_line && a.function == b.function && a.hidden == b.hidden;
}

TEST(PythonCodes, AreFoundUntilTheyAreFreed) {
  auto codes = make<Codes>();
  PythonCode found;
  for (uintptr_t address : {uintptr_t{4096}, uintptr_t{4104}}) {
    EXPECT_FALSE(codes->find(address, &found));
    codes->insert(code_at(address), codes->frees(address));
    ASSERT_TRUE(codes->find(address, &found));
    EXPECT_TRUE(found == code_at(address));
    codes->forget(address);
    EXPECT_FALSE(codes->find(address, &found));
  }
}

TEST(PythonCodes, ThatWereFreedWhileTheyWereReadAreNotKept) {
  auto codes = make<Codes>();
  PythonCode found;
  uint64_t frees = codes->frees(4096);
  codes->forget(4096);
  codes->insert(code_at(4096), frees);
  EXPECT_FALSE(codes->find(4096, &found));
}

TEST(PythonCodes, OfSeveralThreadsAreNotMixed) {
  auto codes = make<Codes>();
  std::atomic<size_t> hits{0}, bad{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      PythonCode found;
      for (uintptr_t n = 0; n < 20000; n++) {
        uintptr_t address = 4096 + (n * (t + 1)) % 32 * 8;
        if (codes->find(address, &found)) {
          hits++;
          bad += found == code_at(address) ? 0 : 1;
        } else {
          codes->insert(code_at(address), codes->frees(address));
        }
        if (n % 64 == t) codes->forget(address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(bad, 0u);
}

}  // namespace
}  // namespace seemalloc::profile
