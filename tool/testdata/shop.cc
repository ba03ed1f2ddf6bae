// Functions with known names, for profiles that tests build from its symbol table. Never executed.
#include <cstdlib>

extern "C" __attribute__((noinline)) void* take_memory(size_t n) { return malloc(n); }

namespace shop {

__attribute__((noinline)) void* basket(int n) { return take_memory(static_cast<size_t>(n) * 2); }
__attribute__((noinline)) void* till(int n) { return take_memory(static_cast<size_t>(n) * 3); }
__attribute__((noinline)) void* serve(int n) {
  if (n > 10) return serve(n / 2);
  void* a = basket(n);
  void* b = till(n);
  return a < b ? a : b;
}

}  // namespace shop

int main(int argc, char**) { return shop::serve(argc) == nullptr; }
