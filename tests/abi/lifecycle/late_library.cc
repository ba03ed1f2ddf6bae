// A library that is opened late: it allocates, frees blocks of others, has thread-local state, and
// throws bad_alloc.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {
struct Held {
  std::vector<std::string> words{10, std::string(100, 'h')};
};
thread_local Held held;
}  // namespace

extern "C" {

void* late_allocate(size_t size) { return malloc(size); }
void late_free(void* block) { free(block); }
void* late_realloc(void* block, size_t size) { return realloc(block, size); }
size_t late_thread_state() { return held.words.size(); }
void* late_new(size_t size) { return ::operator new(size); }
void late_delete(void* block) { ::operator delete(block); }

// 1 when operator new threw bad_alloc and it was caught here; 2 when, in addition, nothrow new
// returned null.
int late_bad_alloc() {
  volatile size_t impossible = PTRDIFF_MAX;
  int result = 0;
  try {
    void* block = ::operator new(impossible);
    asm volatile("" : : "r"(block) : "memory");
    ::operator delete(block);
  } catch (const std::bad_alloc&) {
    result = 1;
  }
  if (::operator new(impossible, std::nothrow) == nullptr) result++;
  return result;
}
}
