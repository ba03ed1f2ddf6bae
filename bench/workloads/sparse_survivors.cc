// sparse_survivors [WAIT_MS] [MB] [KEPT_OF]: allocates MB of blocks of 16–1,015 bytes, frees all
// but a random one in KEPT_OF, waits, makes a few allocations as an idle program does, and reads
// its resident size (rss_kib). Then it allocates MB again, in blocks of 1,000–4,000 bytes.
//
// Stands for: a load peak after which some sessions stay, and the different work that follows.
// Whole pages must be found between the live blocks, returned to the OS while the program is idle,
// and used for other sizes.
#include <vector>

#include "workload.h"

namespace {

std::vector<char*> allocate(workload::Random& random, size_t total, size_t first, size_t last) {
  std::vector<char*> blocks;
  blocks.reserve(total / ((first + last) / 2) * 11 / 10);
  for (size_t sum = 0; sum < total;) {
    const size_t bytes = random.between(first, last);
    blocks.push_back(workload::allocate_touched(bytes));
    sum += bytes;
  }
  return blocks;
}

}  // namespace

int main(int count, char** arguments) {
  const long wait_ms = workload::argument(count, arguments, 1, 2000);
  const size_t total = workload::argument(count, arguments, 2, 400) * 1'000'000;
  const long kept_of = workload::argument(count, arguments, 3, 100);
  workload::Random random(1);
  std::vector<char*> blocks = allocate(random, total, 16, 1015);
  for (char*& block : blocks) {
    if (random.below(kept_of) == 0) continue;
    free(block);
    block = nullptr;
  }
  workload::wait_ms(wait_ms);
  for (int i = 0; i < 1000; ++i) free(workload::allocate_touched(random.between(16, 1015)));
  const double resident = workload::resident_kib();
  std::vector<char*> others = allocate(random, total, 1000, 4000);
  workload::metric("rss_kib", resident);
  workload::metric("rss_again_kib", workload::resident_kib());
  for (char* block : blocks) free(block);
  for (char* block : others) free(block);
  workload::report();
}
