// Reaches heap_limit in each way that a program can, and prints the results.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>
#include <new>

namespace {

struct Block {
  Block* next;
};
Block* blocks = nullptr;
int handled = 0;

void handle() {
  handled++;
  std::set_new_handler(nullptr);
}

void release() {
  while (Block* block = blocks) {
    blocks = block->next;
    free(block);
  }
}

}  // namespace

// Allocates blocks until malloc fails; returns their bytes.
extern "C" __attribute__((noinline)) size_t grow(size_t each) {
  size_t bytes = 0;
  while (Block* block = static_cast<Block*>(malloc(each))) {
    memset(block, 7, each);
    block->next = blocks;
    blocks = block;
    bytes += each;
  }
  return bytes;
}

int main(int argc, char** argv) {
  size_t limit = argc > 1 ? strtoul(argv[1], nullptr, 10) : 0;
  for (size_t each : {size_t{100}, size_t{10000}, size_t{300000}, size_t{3000000}}) {
    errno = 0;
    size_t bytes = grow(each);
    bool most = bytes > limit / 4 * 3 && bytes <= limit;
    printf("malloc(%zu): %s, %s\n", each, errno == ENOMEM ? "ENOMEM" : strerror(errno),
           most ? "most of it was had" : "too little or too much");
    void* large = realloc(blocks, limit / 2);
    bool kept =
        large == nullptr && errno == ENOMEM && reinterpret_cast<char*>(blocks)[each - 1] == 7;
    printf("realloc: %s\n", kept ? "kept" : "lost");
    std::set_new_handler(handle);
    try {
      large = operator new(limit / 2);
      puts("new: had");
    } catch (const std::bad_alloc&) {
      printf("new: handler %d, bad_alloc\n", handled);
    }
    handled = 0;
    printf("new(nothrow): %s\n", operator new(limit / 2, std::nothrow) == nullptr ? "null" : "had");
    release();
    large = malloc(limit / 2);
    printf("once free: %s\n", large != nullptr ? "had" : "null");
    free(large);
  }
}
