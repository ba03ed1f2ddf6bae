// The list of threads as the control socket gives it: complete where there is room, and honest where there is not.
#include "core/api/report.h"

#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "core/api/test_api.h"

namespace seemalloc {
namespace {

std::string threads_json(size_t room) {
  std::string memory(room, 'x');
  Text text(memory.data(), memory.size());
  write_threads_json(text, room);
  EXPECT_FALSE(text.truncated());
  return std::string(text.c_str(), text.size());
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

TEST(Report, ListsEachThreadOrCountsIt) {
  constexpr size_t kThreads = 100;
  std::barrier ready(kThreads + 1), done(kThreads + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      sm_free(sm_malloc(100));
      ready.arrive_and_wait();
      done.arrive_and_wait();
    });
  }
  sm_free(sm_malloc(100));
  ready.arrive_and_wait();
  std::string all = threads_json(threads_json_bytes());
  EXPECT_EQ(count(all, "\"tid\":"), kThreads + 1);
  EXPECT_NE(all.find("],\"left_out\":0}"), std::string::npos) << all;
  std::string few = threads_json(4096);
  size_t listed = count(few, "\"tid\":");
  EXPECT_GT(listed, 10u);
  EXPECT_LT(listed, kThreads);
  EXPECT_NE(few.find("],\"left_out\":" + std::to_string(kThreads + 1 - listed) + "}"), std::string::npos) << few;
  done.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace seemalloc
