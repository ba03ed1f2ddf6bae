// The operations whose instructions are counted, each kCalls times, by callgrind
// (tests/instructions/run).
//
// The counters are reset before every single call, and written out after it under the operation's
// name. The cost of the call in the allocator's library is the library's self cost in that profile:
// none of its other code runs in between. One thread. Some blocks of the size stay live and others
// have been freed, so that free lists exist and spans do not appear or become empty with every
// call. A few calls still enter a slow path: the most frequent count is used.
#include <malloc.h>
#include <valgrind/callgrind.h>

#include <cstdlib>
#include <new>

// Exactly five instructions: a calibration. If they are not counted as five, no other count can be
// trusted.
extern "C" void five_instructions();
asm(".type five_instructions, @function\n"
    "five_instructions: nop; nop; nop; nop; ret\n"
    ".size five_instructions, .-five_instructions\n");

namespace {

constexpr int kCalls = 32;

template <typename Call>
void count(const char* name, Call call) {
  CALLGRIND_ZERO_STATS;
  call();
  CALLGRIND_DUMP_STATS_AT(name);
}

// 64 blocks that stay live, and the same number between them, in groups of four, that are freed.
class Warm {
 public:
  explicit Warm(size_t bytes) {
    for (void*& block : blocks_) block = malloc(bytes);
    for (int i = 0; i < kBlocks; ++i) {
      if (i / 4 % 2 == 0) free(blocks_[i]);
    }
  }
  ~Warm() {
    for (int i = 0; i < kBlocks; ++i) {
      if (i / 4 % 2 != 0) free(blocks_[i]);
    }
  }

 private:
  static constexpr int kBlocks = 128;
  void* blocks_[kBlocks];
};

void* blocks[kCalls];

void count_malloc(const char* name, size_t bytes) {
  Warm warm(bytes);
  for (void*& block : blocks) count(name, [&] { block = malloc(bytes); });
  for (void* block : blocks) free(block);
}

void count_free(const char* name, size_t bytes) {
  Warm warm(bytes);
  for (void*& block : blocks) block = malloc(bytes);
  for (void* block : blocks) count(name, [&] { free(block); });
}

void count_calloc(const char* name, size_t bytes) {
  Warm warm(bytes);
  for (void*& block : blocks) count(name, [&] { block = calloc(1, bytes); });
  for (void* block : blocks) free(block);
}

void count_operators(const char* name_of_new, const char* name_of_delete, size_t bytes) {
  Warm warm(bytes);
  for (void*& block : blocks) count(name_of_new, [&] { block = ::operator new(bytes); });
  for (void* block : blocks) count(name_of_delete, [&] { ::operator delete(block, bytes); });
}

// The cost of the other forms, which by the standard call the base forms.
void count_array_operators(size_t bytes, std::align_val_t alignment) {
  Warm warm(bytes);
  for (void*& block : blocks) count("new_array_64", [&] { block = ::operator new[](bytes); });
  for (void* block : blocks) count("delete_array_64", [&] { ::operator delete[](block); });
  for (void*& block : blocks)
    count("new_nothrow_64", [&] { block = ::operator new(bytes, std::nothrow); });
  for (void* block : blocks)
    count("delete_array_sized_64", [&] { ::operator delete[](block, bytes); });
  for (void*& block : blocks)
    count("new_aligned_64", [&] { block = ::operator new(bytes, alignment); });
  for (void* block : blocks)
    count("delete_sized_aligned_64", [&] { ::operator delete(block, bytes, alignment); });
  for (void*& block : blocks)
    count("new_array_aligned_64", [&] { block = ::operator new[](bytes, alignment); });
  for (void* block : blocks) free(block);
}

void count_in_place(const char* name_of_realloc, const char* name_of_usable_size, size_t bytes) {
  void* block = malloc(bytes);
  size_t usable = 0;
  for (int i = 0; i < kCalls; ++i) {
    count(name_of_realloc, [&] { block = realloc(block, bytes - i % 2); });
    count(name_of_usable_size, [&] { usable = malloc_usable_size(block); });
    if (usable < bytes) abort();
  }
  free(block);
}

}  // namespace

int main() {
  for (int i = 0; i < kCalls; ++i) count("five_instructions", five_instructions);
  count_malloc("malloc_16", 16);
  count_malloc("malloc_64", 64);
  count_malloc("malloc_1024", 1024);
  count_malloc("malloc_8192", 8192);
  count_calloc("calloc_64", 64);
  count_operators("new_64", "delete_sized_64", 64);
  count_array_operators(64, std::align_val_t{64});
  count_free("free_64", 64);
  count_free("free_8192", 8192);
  count_in_place("realloc_in_place_64", "malloc_usable_size_64", 64);
}
