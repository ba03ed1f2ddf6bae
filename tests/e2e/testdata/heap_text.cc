// heap_text PREFIX: holds 2,000 blocks of 1 KiB, ten of them allocated deep in a recursion; has
// gperftools' heap profiler write PREFIX.0001.heap, and jemalloc's prof.dump PREFIX.jemalloc.
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" {
__attribute__((weak)) void HeapProfilerStart(const char* prefix);
__attribute__((weak)) void HeapProfilerDump(const char* reason);
__attribute__((weak)) void HeapProfilerStop();
__attribute__((weak)) int mallctl(const char* name, void* old, size_t* old_bytes, void* fresh,
                                  size_t fresh_bytes);

static void* blocks[2000];
static int count;

__attribute__((noinline)) void hold(int n) {
  for (; n > 0; n--) {
    void* block = malloc(1024);
    *static_cast<volatile char*>(block) = 1;
    blocks[count++] = block;
  }
}

__attribute__((noinline)) void deep(int depth, int n) {
  depth == 0 ? hold(n) : deep(depth - 1, n);
  asm volatile("");
}
}

int main(int, char** argv) {
  if (HeapProfilerStart == nullptr || mallctl == nullptr) return 1;
  HeapProfilerStart(argv[1]);
  hold(1990);
  deep(40, 10);
  HeapProfilerDump("asked for");
  std::string path = std::string(argv[1]) + ".jemalloc";
  const char* name = path.c_str();
  int result = mallctl("prof.dump", nullptr, nullptr, &name, sizeof(name));
  HeapProfilerStop();
  return result;
}
