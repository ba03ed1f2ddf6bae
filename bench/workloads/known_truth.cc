// known_truth [MB] [PROFILE]: eight functions hold known shares of MB, 5 % to 30 %, in blocks of
// one size each. When all blocks are allocated, a heap profile is written to PROFILE; prints lines
// "truth FUNCTION BYTES BLOCK_BYTES" with allocated sizes.
//
// Stands for: the accuracy of a profile. The bytes that a function holds are known exactly here, so
// that the runner can compare the profile's estimate with them.
#include <malloc.h>
#include <seemalloc/seemalloc.h>

#include "workload.h"

// Absent under other allocators.
#pragma weak seemalloc_profile_dump
#pragma weak seemalloc_statistics

namespace {

constexpr long kHundredth = 100;
struct Truth {
  const char* function;
  size_t bytes, block_bytes;
};

}  // namespace

// A named function for each; none may be merged into another, or make its call a tail call.
#define HOLDER(NAME, PERCENT, BLOCK)                                                         \
  extern "C" __attribute__((noinline, noipa)) Truth NAME(long megabytes) {                   \
    const size_t wanted = static_cast<size_t>(megabytes) * 1'000'000 * PERCENT / kHundredth; \
    Truth truth{#NAME, 0, 0};                                                                \
    while (truth.bytes < wanted) {                                                           \
      char* block = workload::allocate_touched(BLOCK);                                       \
      truth.block_bytes = malloc_usable_size(block);                                         \
      truth.bytes += truth.block_bytes;                                                      \
    }                                                                                        \
    return truth;                                                                            \
  }

HOLDER(hold_30_percent, 30, 96)
HOLDER(hold_20_percent, 20, 250)
HOLDER(hold_15_percent, 15, 1000)
HOLDER(hold_10_percent, 10, 64)
HOLDER(hold_8_percent, 8, 5000)
HOLDER(hold_7_percent, 7, 30000)
HOLDER(hold_5_percent, 5, 300000)
HOLDER(hold_another_5_percent, 5, 3000000)

int main(int count, char** arguments) {
  const long megabytes = workload::argument(count, arguments, 1, 1074);
  Truth (*const holders[])(long) = {hold_30_percent, hold_20_percent,       hold_15_percent,
                                    hold_10_percent, hold_8_percent,        hold_7_percent,
                                    hold_5_percent,  hold_another_5_percent};
  double live = 0;
  for (auto hold : holders) {
    const Truth truth = hold(megabytes);
    live += truth.bytes;
    printf("truth %s %zu %zu\n", truth.function, truth.bytes, truth.block_bytes);
  }
  if (seemalloc_statistics) {
    seemalloc_statistics_t statistics;
    seemalloc_statistics(&statistics, sizeof statistics);
    workload::metric("metadata_percent", 100 * statistics.metadata / live);
  }
  workload::Clock clock;
  if (count > 2 && (!seemalloc_profile_dump || seemalloc_profile_dump(arguments[2]) != 0)) return 1;
  workload::metric("dump_ms", clock.seconds() * 1e3);
  workload::report();
}
