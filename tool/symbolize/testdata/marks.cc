// Prints addresses in functions whose names and lines the test knows, and then waits to be inspected.
#include <cstdio>

__attribute__((noinline)) static void mark(const char* what) {
  // The address that a sampler records for a caller: the byte before the return address.
  printf("mark %s %p\n", what, static_cast<char*>(__builtin_return_address(0)) - 1);
  asm volatile("" ::: "memory");
}

namespace shop {

template <class T>
struct Basket {
  T total{};
  __attribute__((always_inline)) void put(T price) {
    mark("inlined");  // line inlined
    total += price;
  }
  __attribute__((always_inline)) void add(T price) {
    put(price + 1);  // line add
  }
};

__attribute__((noinline)) int fill(Basket<int>& basket) {
  basket.add(3);  // line fill
  return basket.total;
}

struct Till {
  Till() {
    mark("constructor");  // line constructor
  }
};

__attribute__((noinline)) int serve(int n) {
  auto ring = [&](int price) __attribute__((always_inline)) {
    mark("lambda");  // line lambda
    n += price;
  };
  ring(5);  // line serve
  return n;
}

namespace {
__attribute__((noinline)) int hidden(int n) {
  mark("anonymous");  // line anonymous
  return n * 3;
}
}  // namespace

}  // namespace shop

extern "C" __attribute__((noinline)) int plain_c(int n) {
  mark("plain");  // line plain
  return n + 1;
}

__attribute__((noinline)) shop::Till* open_till() {
  shop::Till* till = new shop::Till;  // line open
  mark("after");  // line after
  return till;
}

int main(int argc, char**) {
  shop::Basket<int> basket;
  int sum = shop::fill(basket) + shop::serve(argc) + shop::hidden(argc) + plain_c(argc);
  delete open_till();
  printf("end %d\n", sum != 0);
  fflush(stdout);
  getchar();
}
