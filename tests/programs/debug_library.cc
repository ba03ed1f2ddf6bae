// Writes to a block that it has freed, one that is neither first nor second on its span's free
// list, and continues with blocks of other sizes.
#include <cstddef>
#include <cstdlib>

int main() {
  constexpr int kBlocks = 400;
  char* blocks[kBlocks];
  for (char*& block : blocks) block = static_cast<char*>(std::malloc(100));
  // Every other one: their spans stay.
  for (int i = 0; i < kBlocks; i += 2) std::free(blocks[i]);
  volatile char* freed = blocks[kBlocks / 2];  // volatile: a compiler may leave such writes out
  for (int i = 0; i < 16; i++) freed[i] = 0x55;
  for (std::size_t bytes = 1000; bytes < 20000; bytes += 500) {
    if (std::malloc(bytes) == nullptr) return 1;
  }
  return 0;
}
