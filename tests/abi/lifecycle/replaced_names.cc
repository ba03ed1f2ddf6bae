// A program with its own operators, malloc_stats and so on, which call gperftools' second names:
// those must not call back.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

extern "C" {
void* tc_new(size_t bytes);
void* tc_newarray(size_t bytes);
void* tc_new_aligned(size_t bytes, std::align_val_t alignment);
void tc_delete(void* p) noexcept;
void tc_deletearray(void* p) noexcept;
void tc_delete_aligned(void* p, std::align_val_t alignment) noexcept;
void* tc_pvalloc(size_t bytes) noexcept;
void tc_malloc_stats(void) noexcept;
int tc_mallopt(int parameter, int value) noexcept;
struct mallinfo2 tc_mallinfo2(void) noexcept;
}

namespace {
int depth = 0, calls = 0;
struct Call {
  explicit Call(const char* name) {
    calls++;
    if (depth++ == 0) return;
    fprintf(stderr, "%s came back\n", name);
    _Exit(1);
  }
  ~Call() { depth--; }
};
}  // namespace

void* operator new(size_t bytes) { return Call("new"), tc_new(bytes); }
void* operator new[](size_t bytes) { return Call("new[]"), tc_newarray(bytes); }
void* operator new(size_t bytes, std::align_val_t a) {
  return Call("aligned new"), tc_new_aligned(bytes, a);
}
void operator delete(void* p) noexcept { Call("delete"), tc_delete(p); }
void operator delete(void* p, size_t) noexcept { Call("delete"), tc_delete(p); }
void operator delete[](void* p) noexcept { Call("delete[]"), tc_deletearray(p); }
void operator delete[](void* p, size_t) noexcept { Call("delete[]"), tc_deletearray(p); }
void operator delete(void* p, std::align_val_t a) noexcept {
  Call("aligned delete"), tc_delete_aligned(p, a);
}
void operator delete(void* p, size_t, std::align_val_t a) noexcept {
  Call("aligned delete"), tc_delete_aligned(p, a);
}
extern "C" {
void* pvalloc(size_t bytes) noexcept { return Call("pvalloc"), tc_pvalloc(bytes); }
void malloc_stats(void) noexcept { Call("malloc_stats"), tc_malloc_stats(); }
int mallopt(int parameter, int value) noexcept {
  return Call("mallopt"), tc_mallopt(parameter, value);
}
struct mallinfo2 mallinfo2(void) noexcept {
  return Call("mallinfo2"), tc_mallinfo2();
}
}

struct alignas(128) Wide {
  char bytes[256];
};

int main() {
  std::vector<int> numbers(1000, 1);
  Wide* wide = new Wide;
  char* text = new char[100];
  bool good = reinterpret_cast<size_t>(wide) % 128 == 0 && malloc_usable_size(text) >= 100;
  delete wide;
  delete[] text;
  void* pages = pvalloc(1);
  good = good && reinterpret_cast<size_t>(pages) % 4096 == 0 && malloc_usable_size(pages) >= 4096;
  free(pages);
  // The printed text is not under test.
  int stderr_copy = dup(2), nowhere = open("/dev/null", O_WRONLY);
  good = good && dup2(nowhere, 2) == 2;
  malloc_stats();
  dup2(stderr_copy, 2);
  good = good && mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 &&
         mallinfo2().uordblks >= numbers.size() * sizeof(int);
  if (!good || calls < 9) return 1;
  puts("ok");
  return 0;
}
