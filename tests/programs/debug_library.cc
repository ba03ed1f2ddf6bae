// Writes to a block that it has freed, one that is neither first nor second on its span's free list, and goes on with blocks of
// other sizes.
#include <cstdint>
#include <cstdlib>
#include <cstring>

int main() {
  constexpr int kBlocks = 400;
  char* blocks[kBlocks];
  for (char*& block : blocks) block = static_cast<char*>(std::malloc(100));
  for (int i = 0; i < kBlocks / 2; i++) std::free(blocks[i]);
  char* volatile freed = blocks[kBlocks / 4];
  std::memset(freed, 0x55, 16);
  for (std::size_t bytes = 1000; bytes < 20000; bytes += 500) {
    if (std::malloc(bytes) == nullptr) return 1;
  }
  return 0;
}
