// The C++ operators new and delete: the 20 replaceable ones of the standard.
//
// The C++ runtime is the program's, not ours: std::get_new_handler, std::__throw_bad_alloc and the exception machinery
// are weak references, null in a C program, which never calls these operators.
#include <dlfcn.h>

#include <new>

#include "core/api/fast_path.h"
#include "core/api/other_names.h"
#include "core/base/units.h"

extern "C" __attribute__((weak)) void* dlopen(const char* name, int flags) noexcept;
extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;

// Emitted by the compiler for the catch clause below.
__asm__(
    ".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _ZSt15get_new_handlerv\n"
    ".weak _ZSt17__throw_bad_allocv\n");

extern "C" void (*_ZSt15get_new_handlerv())() __attribute__((weak));
extern "C" [[noreturn]] void _ZSt17__throw_bad_allocv() __attribute__((weak));

namespace seemalloc {
namespace {

constexpr size_t kUnaligned = 1;  // the operators without an alignment

void* allocate_any(size_t bytes, size_t alignment) {
  // Blocks of up to 8 bytes are aligned to 8: enough for any object of that size, not for a request for 16.
  return alignment <= sizeof(void*) ? allocate(bytes) : allocate_aligned(bytes, alignment);
}

// A C++ runtime that came with a library loaded later is not in the scope our references were bound in: looked for by
// name. Only when memory is out.
template <typename F>
F find_runtime(F bound, const char* name) {
  if (bound != nullptr || dlopen == nullptr || dlsym == nullptr) return bound;
  for (const char* library : {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* found = dlsym(handle, name)) return reinterpret_cast<F>(found);
  }
  return nullptr;
}

// Asks the program's new-handler to make room until there is room; throws when there is no handler (any more).
SEEMALLOC_COLD void* new_slow(size_t bytes, size_t alignment) {
  auto* get_new_handler = find_runtime(&_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv");
  for (;;) {
    void (*handler)() = get_new_handler != nullptr ? get_new_handler() : nullptr;
    if (handler == nullptr) {
      auto* throw_bad_alloc = find_runtime(&_ZSt17__throw_bad_allocv, "_ZSt17__throw_bad_allocv");
      if (throw_bad_alloc == nullptr) fatal("operator new: out of memory and no C++ runtime to throw", nullptr);
      throw_bad_alloc();
    }
    handler();
    void* p = allocate_any(bytes, alignment);
    if (p != nullptr) return p;
  }
}

SEEMALLOC_COLD void* new_nothrow_slow(size_t bytes, size_t alignment) noexcept {
  auto* get_new_handler = find_runtime(&_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv");
  if (get_new_handler == nullptr || get_new_handler() == nullptr) return nullptr;
  try {
    return new_slow(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

SEEMALLOC_ALWAYS_INLINE void* new_block(size_t bytes) {
  void* p = allocate(bytes);
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_slow(bytes, kUnaligned);
}
SEEMALLOC_ALWAYS_INLINE void* new_block_nothrow(size_t bytes) {
  void* p = allocate(bytes);
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_nothrow_slow(bytes, kUnaligned);
}
void* new_aligned(size_t bytes, std::align_val_t alignment) {
  void* p = allocate_any(bytes, static_cast<size_t>(alignment));
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_slow(bytes, static_cast<size_t>(alignment));
}
void* new_aligned_nothrow(size_t bytes, std::align_val_t alignment) {
  void* p = allocate_any(bytes, static_cast<size_t>(alignment));
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_nothrow_slow(bytes, static_cast<size_t>(alignment));
}

}  // namespace

void* call_new(size_t bytes) { return new_block(bytes); }
void* call_new(size_t bytes, const std::nothrow_t&) noexcept { return new_block_nothrow(bytes); }
void* call_new(size_t bytes, std::align_val_t alignment) { return new_aligned(bytes, alignment); }
void* call_new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return new_aligned_nothrow(bytes, alignment);
}

}  // namespace seemalloc

#define EXPORTED __attribute__((visibility("default")))
using std::align_val_t;
using std::nothrow_t;
using std::size_t;

EXPORTED void* operator new(size_t bytes) { return seemalloc::new_block(bytes); }
EXPORTED void* operator new[](size_t bytes) { return seemalloc::new_block(bytes); }
EXPORTED void* operator new(size_t bytes, const nothrow_t&) noexcept { return seemalloc::new_block_nothrow(bytes); }
EXPORTED void* operator new[](size_t bytes, const nothrow_t&) noexcept { return seemalloc::new_block_nothrow(bytes); }
EXPORTED void* operator new(size_t bytes, align_val_t a) { return seemalloc::new_aligned(bytes, a); }
EXPORTED void* operator new[](size_t bytes, align_val_t a) { return seemalloc::new_aligned(bytes, a); }
EXPORTED void* operator new(size_t bytes, align_val_t a, const nothrow_t&) noexcept {
  return seemalloc::new_aligned_nothrow(bytes, a);
}
EXPORTED void* operator new[](size_t bytes, align_val_t a, const nothrow_t&) noexcept {
  return seemalloc::new_aligned_nothrow(bytes, a);
}

EXPORTED void operator delete(void* p) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete(void* p, const nothrow_t&) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p, const nothrow_t&) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete(void* p, size_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p, size_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete(void* p, align_val_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p, align_val_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete(void* p, size_t, align_val_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p, size_t, align_val_t) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete(void* p, align_val_t, const nothrow_t&) noexcept { seemalloc::deallocate(p); }
EXPORTED void operator delete[](void* p, align_val_t, const nothrow_t&) noexcept { seemalloc::deallocate(p); }
