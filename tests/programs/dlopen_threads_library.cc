// One of the libraries that dlopen_threads opens: it allocates at load, in use and per thread, and
// frees later.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Loaded {
  std::map<int, std::string> names;
  char* raw = static_cast<char*>(malloc(10000 + NUMBER));
  Loaded() {
    for (int i = 0; i < 200; ++i) names[i] = std::string(20 + i, static_cast<char>('a' + NUMBER));
    memset(raw, NUMBER, 10000 + NUMBER);
  }
  ~Loaded() {
    for (auto& [number, name] : names) {
      if (name != std::string(20 + number, static_cast<char>('a' + NUMBER))) abort();
    }
    if (raw[9999] != NUMBER) abort();
    free(raw);
  }
};
Loaded loaded;

// Dynamic TLS: its block comes from malloc through the dynamic linker.
thread_local char scratch[3000];
thread_local int uses;

}  // namespace

// Returns a block that the caller frees, possibly after this library has been unloaded.
extern "C" char* make(size_t bytes) {
  ++uses;
  memset(scratch, uses, sizeof scratch);
  std::vector<std::string> some(50, std::string(bytes % 400, 'x'));
  if (some[49].size() != bytes % 400 || scratch[2999] != static_cast<char>(uses)) abort();
  char* block = static_cast<char*>(malloc(bytes));
  memset(block, 'a' + NUMBER, bytes);
  return block;
}
