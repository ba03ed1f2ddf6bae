// Exceptions in flight: captures in destructors while a stack is unwound, in handlers, in functions
// called from a noexcept function, and where an exception is rethrown.
#include <exception>
#include <functional>
#include <string>

#include "expected_stack.h"

namespace {

unsigned long state = 1;
unsigned random_below(unsigned limit) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return static_cast<unsigned>(state >> 33) % limit;
}

void any(int depth);

// Calls POP_FRAME() on every way out: when an exception leaves a frame, its noted address is
// removed, too.
struct Forget {
  ~Forget() { POP_FRAME(); }
};

// While a destructor runs in a stack that is being unwound, the C++ runtime's frames are below it.
struct AtScopeExit {
  int depth;
  NOINLINE ~AtScopeExit() {
    PUSH_FRAME();
    Forget forget;
    any(depth);
  }
};

struct Thrown {
  int depth;
  explicit NOINLINE Thrown(int depth) : depth(depth) {
    PUSH_FRAME();
    Forget forget;
    any(depth / 3);  // between __cxa_allocate_exception and __cxa_throw
  }
  Thrown(const Thrown& other) : depth(other.depth) {}
};

NOINLINE void thrower(int depth, int levels) {
  PUSH_FRAME();
  Forget forget;
  AtScopeExit guard{depth / 2};
  if (levels == 0) throw Thrown(depth);
  thrower(depth, levels - 1);
  KEEP_FRAME;
}

NOINLINE void catches(int depth) {
  PUSH_FRAME();
  Forget forget;
  try {
    thrower(depth, static_cast<int>(random_below(5)));
  } catch (const Thrown& thrown) {
    any(thrown.depth / 2);
  }
}

NOINLINE void throws_again(int depth) {
  PUSH_FRAME();
  Forget forget;
  std::exception_ptr kept;
  try {
    try {
      thrower(depth, 1);
    } catch (const Thrown&) {
      kept = std::current_exception();
      any(depth / 3);
      throw;
    }
  } catch (...) {
    any(depth / 3);
  }
  try {
    std::rethrow_exception(kept);
  } catch (const Thrown& thrown) {
    any(thrown.depth / 2);
  }
}

NOINLINE void through_noexcept(int depth) noexcept {
  PUSH_FRAME();
  Forget forget;
  std::string text(static_cast<size_t>(depth) * 10, 'x');
  any(depth);
}

NOINLINE void through_function(int depth) {
  PUSH_FRAME();
  Forget forget;
  SKIP_FOREIGN_FRAMES();
  std::function<void()> call = [depth]() NOINLINE {
    PUSH_FRAME();
    Forget inner;
    any(depth);
  };
  call();
  POP_FRAME();
}

NOINLINE void any(int depth) {
  PUSH_FRAME();
  Forget forget;
  switch (depth <= 0 ? 100 : random_below(4)) {
    case 100: check(); break;
    case 0: catches(depth - 1); break;
    case 1: throws_again(depth - 1); break;
    case 2: through_noexcept(depth - 1); break;
    default: through_function(depth - 1); break;
  }
}

}  // namespace

int main() {
  PUSH_FRAME();
  for (int i = 0; i < 300; i++) any(i % 10);
  if (checks < 1000) return 1;
  puts("ok");
  return 0;
}
