// Programs of known truth for the profile kinds that show more than allocations: heap_kinds WAY
// runs until standard input ends. Each function that a test names is a separate function.
#include <seemalloc/seemalloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#pragma weak seemalloc_pool_create
#pragma weak seemalloc_pool_alloc
#pragma weak seemalloc_pool_free
#pragma weak seemalloc_pool_reset
#pragma weak seemalloc_pool_destroy

#define KNOWN extern "C" __attribute__((noinline))

static constexpr size_t kMiB = 1 << 20;

// The calls are not the last ones of their functions: the compiler would turn those into jumps.
template <typename T>
static T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

static void rest() {
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

// ---- pinned: blocks of one size. A table fills its spans. Of the later blocks one in a hundred
// stays. ----

KNOWN char* fill_table() { return keep(static_cast<char*>(malloc(160))); }
KNOWN char* serve_request() { return keep(static_cast<char*>(malloc(160))); }
KNOWN char* remember_session() { return keep(static_cast<char*>(malloc(160))); }

static void pinned() {
  for (int i = 0; i < 400000; i++) fill_table()[0] = 1;
  std::vector<char*> requests;
  requests.reserve(400000);
  for (int i = 0; i < 400000; i++) {
    if (i % 100 == 0) {
      remember_session()[0] = 1;
    } else {
      requests.push_back(serve_request());
    }
  }
  for (char* request : requests) free(request);
  rest();
}

// ---- grown: 64 MiB in small blocks, one block of 96 MiB, and blocks that fit into memory that
// others have freed ----

KNOWN char* load_index() { return keep(static_cast<char*>(malloc(1024))); }
KNOWN char* map_table() { return keep(static_cast<char*>(malloc(96 * kMiB))); }
KNOWN char* reuse() { return keep(static_cast<char*>(malloc(1024))); }

static void grown() {
  std::vector<char*> blocks(64 * 1024);
  for (char*& block : blocks) block = load_index();
  for (char* block : blocks) free(block);
  for (size_t i = 0; i < 32 * 1024; i++) reuse();
  keep(map_table());
  rest();
}

// ---- arena: a program with its own arena, which reports its blocks if the library is loaded ----

class Arena {
 public:
  explicit Arena(const char* name)
      : pool_(seemalloc_pool_create ? seemalloc_pool_create(name) : nullptr) {}
  char* take(size_t bytes) {
    if (left_ < bytes) next_ = static_cast<char*>(malloc(left_ = kMiB));
    char* block = next_;
    next_ += bytes;
    left_ -= bytes;
    if (pool_) seemalloc_pool_alloc(pool_, block, bytes);
    return block;
  }
  void give(char* block) {
    if (pool_) seemalloc_pool_free(pool_, block);
  }
  void begin_anew() {
    left_ = 0;
    if (pool_) seemalloc_pool_reset(pool_);
  }

 private:
  seemalloc_pool_t* pool_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

KNOWN char* read_text(Arena& arena) { return keep(arena.take(200)); }
KNOWN char* parse_node(Arena& arena) { return keep(arena.take(48)); }
KNOWN char* scratch(Arena& arena) { return keep(arena.take(1000)); }

static void arena() {
  static Arena texts("texts"), nodes("nodes"), frames("frames");
  for (int i = 0; i < 20000; i++) {
    char* text = read_text(texts);
    if (i % 4 == 0) texts.give(text);
    parse_node(nodes);
    scratch(frames);
    if (i % 1000 == 999) frames.begin_anew();
  }
  rest();
}

int main(int, char** argv) {
  if (strcmp(argv[1], "pinned") == 0) pinned();
  if (strcmp(argv[1], "grown") == 0) grown();
  if (strcmp(argv[1], "arena") == 0) arena();
}
