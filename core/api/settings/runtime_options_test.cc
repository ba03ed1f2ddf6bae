// Texts that are set while other threads read them.
#include "core/api/settings/runtime_options.h"

#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"

namespace seemalloc {
namespace {

TEST(RuntimeOptions, TextIsReadCompletely) {
  std::atomic<bool> done{false};
  std::thread writer([&done] {
    for (char letter = 'a'; !done; letter = letter == 'a' ? 'b' : 'a') {
      EXPECT_EQ(seemalloc_option_set("dump_prefix",
                                     std::string(letter == 'a' ? 250 : 240, letter).c_str()),
                0);
    }
  });
  char value[300];
  unsigned torn = 0;
  while (seemalloc_option_get("dump_prefix", value, sizeof(value)) == 0) {
  }
  for (uint64_t until = os::monotonic_ns() + 500 * kMillisecondNs; os::monotonic_ns() < until;) {
    long length = seemalloc_option_get("dump_prefix", value, sizeof(value));
    torn += std::string(value) != std::string(value[0] == 'a' ? 250 : 240, value[0]) ||
            length != (value[0] == 'a' ? 250 : 240);
  }
  done = true;
  writer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(seemalloc_option_set("dump_prefix", ""), 0);
}

}  // namespace
}  // namespace seemalloc
