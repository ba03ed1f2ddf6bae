// A function that this library defines in front of another one of the same name: the C library's,
// or an interposer's between the two. This class finds the other one, which ours calls.
//
// Threads: any. A lookup takes the dynamic linker's lock, and may allocate. Not for signal
// handlers, nor under our locks.
#pragma once

#include <dlfcn.h>

#include <atomic>

// Absent in a static program.
extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;

namespace seemalloc {

template <typename F>
class NextFunction {
 public:
  constexpr explicit NextFunction(F until_found = nullptr) : function_(until_found) {}

  // Async-signal-safe: it looks nothing up.
  F get() const { return function_.load(std::memory_order_relaxed); }
  void find(const char* name) {
    void* found = dlsym != nullptr ? dlsym(RTLD_NEXT, name) : nullptr;
    if (found != nullptr) function_.store(reinterpret_cast<F>(found), std::memory_order_relaxed);
  }
  // Looks it up at the first call. Null if there is none.
  F find_once(const char* name) {
    if (get() == nullptr) find(name);
    return get();
  }

 private:
  std::atomic<F> function_;
};

}  // namespace seemalloc
