// A program without any shared library (-static) that links libseemalloc.a: threads, C++ and the
// whole family.
#include <malloc.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

int main() {
  std::vector<std::thread> threads;
  for (unsigned long i = 0; i < 4; i++) {
    threads.emplace_back([i] {
      unsigned long state = i + 1;
      for (int j = 0; j < 20000; j++) {
        size_t size = random_size(&state) % 50000 + 1;
        free_marked(marked(malloc(size), size), size);
      }
      std::map<std::string, std::string> map;
      for (int j = 0; j < 1000; j++) map[std::to_string(j)] = std::string(100, 'x');
    });
  }
  for (std::thread& thread : threads) thread.join();
  void* p = nullptr;
  EXPECT(posix_memalign(&p, 4096, 100) == 0);
  free(p);
  free(memalign(64, 100));
  free(aligned_alloc(64, 128));
  free(reallocarray(nullptr, 10, 10));
  free(valloc(10));
  EXPECT(malloc_usable_size(nullptr) == 0);
  EXPECT(mallinfo2().uordblks > 0 || mallinfo2().arena > 0);
  return ok();
}
