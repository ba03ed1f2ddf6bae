// A program that leaks in two functions, a little over 1 MiB a second each, beside one that
// allocates and frees.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {
std::vector<char*> kept;
}

char* filled(size_t bytes) {
  char* block = new char[bytes];
  memset(block, 1, bytes);
  return block;
}

__attribute__((noinline)) void leaky_parser() {
  kept.push_back(filled(100 * 1024));
  asm volatile("");
}

__attribute__((noinline)) void leaky_session() {
  for (int i = 0; i < 100; i++) kept.push_back(filled(1024));
}

__attribute__((noinline)) void steady_work() {
  std::vector<char*> some;
  for (int i = 0; i < 1000; i++) some.push_back(filled(64 + i));
  for (char* block : some) delete[] block;
}

int main() {
  std::vector<char*> base;
  for (int i = 0; i < 20000; i++) base.push_back(filled(1000));
  puts("ready");
  fflush(stdout);
  for (;;) {
    leaky_parser();
    leaky_session();
    steady_work();
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
  }
}
