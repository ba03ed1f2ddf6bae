// Threads open and close libraries while they and others allocate: the dynamic linker calls malloc
// with its lock held, and the code that a sampled stack points into may be unmapped a moment later.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4, kRounds = 250, kLibraries = 8;
std::atomic<int> opened, closed;
std::atomic<bool> done;

void die(const char* what) {
  fprintf(stderr, "dlopen_threads: %s: %s\n", what, dlerror());
  exit(1);
}

void open_and_close(const std::string& folder, int seed) {
  std::vector<std::pair<char*, size_t>> kept;
  for (int round = 0; round < kRounds; ++round) {
    const int number = (seed * 7 + round * 3) % kLibraries;
    const std::string path = folder + "/library" + std::to_string(number) + ".so";
    void* library = dlopen(path.c_str(), round % 2 ? RTLD_NOW : RTLD_LAZY);
    if (!library) die("dlopen");
    ++opened;
    auto make = reinterpret_cast<char* (*)(size_t)>(dlsym(library, "make"));
    if (!make) die("dlsym");
    for (int i = 0; i < 20; ++i) {
      const size_t bytes = 1 + (round * 53 + i * 771) % 40000;
      kept.emplace_back(make(bytes), bytes);
      if (kept.back().first[bytes - 1] != 'a' + number) die("a block is damaged");
    }
    if (dlclose(library)) die("dlclose");
    ++closed;
    while (kept.size() > 40) {  // freed after the library that allocated them was closed
      free(kept.back().first);
      kept.pop_back();
    }
  }
  for (auto& [block, bytes] : kept) free(block);
}

void allocate_meanwhile() {
  while (!done) {
    std::vector<std::string> some;
    for (int i = 0; i < 200; ++i) some.emplace_back(100 + i * 13, 'z');
  }
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  std::thread other(allocate_meanwhile);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(open_and_close, folder, i);
  for (auto& thread : threads) thread.join();
  done = true;
  other.join();
  // No thread holds a library now: each must really have been unloaded.
  bool gone = true;
  for (int i = 0; i < kLibraries; ++i) {
    gone = gone && !dlopen((folder + "/library" + std::to_string(i) + ".so").c_str(),
                           RTLD_NOW | RTLD_NOLOAD);
  }
  printf("opened %d closed %d unloaded %s\n", opened.load(), closed.load(),
         gone ? "all" : "not all");
}
