// The C++ operators new and delete: the 20 replaceable ones of the standard.
//
// By the standard most of them call others: new[](n) calls new(n), delete(p, n) calls delete(p),
// and so on down to four base operators: new and delete, with and without an alignment. A program
// may replace any of them. The rest must then call the replacement. If none is replaced, each
// operator here goes straight to the heap: a call of another operator would cost every program.
//
// Invariants:
//  1. Until it is known that no operator is replaced, the gate of an operator that has to call
//     others is closed: no size is small (`operator_gate`), and no page is in the window
//     (Window::guarded_page_of). The gates are the limits that the fast path compares with anyway,
//     so they cost no instruction. A closed gate leads to `..._outside`, which calls
//     no_operator_replaced().
//  2. The set of replaced operators never changes: their addresses are bound when the library is
//     loaded or linked.
//
// All are weak: in a static link the program's own operators win. The program brings the C++
// runtime: std::get_new_handler and the exception machinery are weak references, which are null in
// a C program. A C program never calls these operators.
#include <arch_words.h>
#include <dlfcn.h>

#include <atomic>
#include <new>

#include "core/api/malloc/alternative_names.h"
#include "core/api/malloc/fast_path.h"
#include "core/base/units.h"

extern "C" __attribute__((weak)) void* dlopen(const char* name, int flags) noexcept;
extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;

// Emitted by the compiler for `throw std::bad_alloc()` and for catch clauses.
__asm__(
    ".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak __cxa_allocate_exception\n"
    ".weak __cxa_throw\n"
    ".weak _ZTISt9bad_alloc\n"
    ".weak _ZTVSt9bad_alloc\n"
    ".weak _ZNSt9bad_allocD1Ev\n"
    ".weak _ZSt15get_new_handlerv\n");

// A program that extracts this member from the archive also needs members that nothing here refers
// to. So their names are put into the symbol table. No relocation uses them, so linkers do not
// complain if they are undefined. malloc: the program and the C library then share one heap.
__asm__(".globl malloc\n");
#ifdef SEEMALLOC_ARCHIVE
// A weak reference extracts no member from libstdc++.a, so a static program might lack __cxa_throw.
// A strong reference would not link in C (with --whole-archive). The members that define these two
// also define the weak ones above, in libstdc++ and in libc++abi.
__asm__(
    ".globl __cxa_rethrow\n"
    ".globl _ZNKSt9bad_alloc4whatEv\n");
#endif

extern "C" void (*_ZSt15get_new_handlerv())() __attribute__((weak));
extern "C" void __cxa_throw(void* object, void* type, void (*destroy)(void*)) __attribute__((weak));
extern "C" const char bad_alloc_type __asm__("_ZTISt9bad_alloc") __attribute__((weak));

// The definitions in this file, even if the names resolve to others.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#define OURS(name) __attribute__((alias(name), visibility("hidden")))
extern "C" {
void* seemalloc_new(size_t bytes) OURS("_Znwm");
void* seemalloc_new_array(size_t bytes) OURS("_Znam");
void* seemalloc_new_aligned(size_t bytes, std::align_val_t a) OURS("_ZnwmSt11align_val_t");
void* seemalloc_new_array_aligned(size_t bytes, std::align_val_t a) OURS("_ZnamSt11align_val_t");
void seemalloc_delete(void* p) noexcept OURS("_ZdlPv");
void seemalloc_delete_array(void* p) noexcept OURS("_ZdaPv");
void seemalloc_delete_aligned(void* p, std::align_val_t a) noexcept OURS("_ZdlPvSt11align_val_t");
void seemalloc_delete_array_aligned(void* p, std::align_val_t a) noexcept
    OURS("_ZdaPvSt11align_val_t");
}
#undef OURS
#pragma GCC diagnostic pop

using std::align_val_t;
using std::nothrow_t;
using std::size_t;

namespace seemalloc {
namespace {

constexpr size_t kUnaligned = 1;  // the operators without an alignment

void* allocate_any(size_t bytes, size_t alignment) {
  // Blocks of up to 8 bytes are aligned to 8: enough for any object of that size, not for a request
  // for 16.
  return alignment <= sizeof(void*) ? allocate(bytes) : allocate_aligned(bytes, alignment);
}

// ---- out of memory ----

// Our references are not bound to a C++ runtime that was loaded later with a library: it is looked
// up by name, and only when memory is exhausted. A program with the archive has the runtime that it
// was linked with.
template <typename F>
F find_runtime(F bound, [[maybe_unused]] const char* name) {
#ifdef SEEMALLOC_ARCHIVE
  return bound;
#else
  if (bound != nullptr || dlopen == nullptr || dlsym == nullptr) return bound;
  for (const char* library : {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* found = dlsym(handle, name)) return reinterpret_cast<F>(found);
  }
  return nullptr;
#endif
}

[[noreturn]] SEEMALLOC_COLD void throw_bad_alloc() {
  if (&__cxa_throw != nullptr && &bad_alloc_type != nullptr) throw std::bad_alloc();
  void (*late)() = find_runtime<void (*)()>(nullptr, "_ZSt17__throw_bad_allocv");
  if (late != nullptr) late();
  fatal("operator new: out of memory and no C++ runtime to throw", nullptr);
}

// Calls the program's new-handler until the allocation succeeds; throws when there is no handler
// (any more).
SEEMALLOC_COLD void* new_slow(size_t bytes, size_t alignment) {
  auto* get_new_handler = find_runtime(&_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv");
  for (;;) {
    void (*handler)() = get_new_handler != nullptr ? get_new_handler() : nullptr;
    if (handler == nullptr) throw_bad_alloc();
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

// ---- from our heap, whichever operators are replaced ----
//
// `a` is empty or the alignment. An alignment that is not a power of two is refused without a call
// of the new-handler, as in libstdc++.

bool is_valid() { return true; }
bool is_valid(align_val_t a) { return is_power_of_two(static_cast<size_t>(a)); }
size_t alignment_of() { return kUnaligned; }
size_t alignment_of(align_val_t a) { return static_cast<size_t>(a); }

template <typename... Alignment>
SEEMALLOC_NOINLINE void* new_block(size_t bytes, Alignment... a) {
  if (SEEMALLOC_UNLIKELY(!is_valid(a...))) throw_bad_alloc();
  void* p = allocate_any(bytes, alignment_of(a...));
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_slow(bytes, alignment_of(a...));
}
template <typename... Alignment>
SEEMALLOC_NOINLINE void* new_block_nothrow(size_t bytes, Alignment... a) noexcept {
  if (SEEMALLOC_UNLIKELY(!is_valid(a...))) return nullptr;
  void* p = allocate_any(bytes, alignment_of(a...));
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_nothrow_slow(bytes, alignment_of(a...));
}

// ---- the gate ----

enum class Replaced : uint8_t { kNotAsked, kNothing, kSomething };

// The fast path takes sizes below these limits; zero: no size. In a cache line of its own, since it
// is hardly ever written.
struct alignas(kCacheLineBytes) OperatorGate {
  size_t tiny_end = 0;
  size_t small_end = 0;
  std::atomic<Replaced> replaced{Replaced::kNotAsked};
};
constinit OperatorGate operator_gate;

template <typename F>
bool leads_to(F* name, F* definition) {
  __asm__("" : "+r"(name));  // the compiler must not conclude it from the definitions below
  return name == definition;
}

// Whether the eight operators that others call are ours. Each name resolves to the program's own
// operator if it has one.
bool operators_are_ours() {
  return leads_to<void*(size_t)>(&::operator new, &seemalloc_new) &&
         leads_to<void*(size_t)>(&::operator new[], &seemalloc_new_array) &&
         leads_to<void*(size_t, align_val_t)>(&::operator new, &seemalloc_new_aligned) &&
         leads_to<void*(size_t, align_val_t)>(&::operator new[], &seemalloc_new_array_aligned) &&
         leads_to<void(void*) noexcept>(&::operator delete, &seemalloc_delete) &&
         leads_to<void(void*) noexcept>(&::operator delete[], &seemalloc_delete_array) &&
         leads_to<void(void*, align_val_t) noexcept>(&::operator delete,
                                                     &seemalloc_delete_aligned) &&
         leads_to<void(void*, align_val_t) noexcept>(&::operator delete[],
                                                     &seemalloc_delete_array_aligned);
}

// Opens the gate for sizes if no operator is replaced. Any thread, any number of times.
bool no_operator_replaced() {
  Replaced replaced = operator_gate.replaced.load(std::memory_order_relaxed);
  if (SEEMALLOC_UNLIKELY(replaced == Replaced::kNotAsked)) {
    replaced = operators_are_ours() ? Replaced::kNothing : Replaced::kSomething;
    operator_gate.replaced.store(replaced, std::memory_order_relaxed);
    if (replaced == Replaced::kNothing) {
      racy_store(operator_gate.tiny_end, heap::kTinyTableMax + 1);
      racy_store(operator_gate.small_end, heap::kMaxSmallBytes + 1);
    }
  }
  return replaced == Replaced::kNothing;
}

// The limits of small sizes: for the base operators, and for those with a gate.
struct AllSmall {
  static constexpr size_t tiny_end() { return heap::kTinyTableMax + 1; }
  static constexpr size_t small_end() { return heap::kMaxSmallBytes + 1; }
};
struct Gated {
  SEEMALLOC_ALWAYS_INLINE static size_t tiny_end() { return racy_load(operator_gate.tiny_end); }
  SEEMALLOC_ALWAYS_INLINE static size_t small_end() { return racy_load(operator_gate.small_end); }
};

// The class of a small request; false if it is not small.
template <typename Small>
SEEMALLOC_ALWAYS_INLINE bool find_class(size_t* size_class, size_t bytes) {
  if (SEEMALLOC_LIKELY(bytes < Small::tiny_end())) {
    *size_class = heap::kTinyTable[(bytes + 7) / 8];
    return true;
  }
  if (bytes >= Small::small_end()) return false;
  *size_class = heap::kSmallTable[(bytes + 127) / 128];
  return true;
}
template <typename Small>
SEEMALLOC_ALWAYS_INLINE bool find_class(size_t* size_class, size_t bytes, align_val_t a) {
  size_t alignment = static_cast<size_t>(a);
  if (SEEMALLOC_UNLIKELY(!is_power_of_two(alignment))) return false;
  if (alignment <= sizeof(void*)) return find_class<Small>(size_class, bytes);
  if (alignment > kPageBytes || bytes >= Small::small_end()) return false;
  *size_class = heap::aligned_class_of(bytes, alignment);
  return true;
}

// Allocates a small block, without a stack frame; otherwise returns the result of kElse.
template <typename Small, auto kElse, auto kOutOfMemory, typename... Alignment>
SEEMALLOC_ALWAYS_INLINE void* new_small(size_t bytes, Alignment... a) {
  size_t size_class;
  if (SEEMALLOC_UNLIKELY(!find_class<Small>(&size_class, bytes, a...))) return kElse(bytes, a...);
  void* p = allocate_from(size_class, bytes);
  return SEEMALLOC_LIKELY(p != nullptr) ? p : kOutOfMemory(bytes, alignment_of(a...));
}

// ---- the base operators ----

SEEMALLOC_NOINLINE void* new_large(size_t bytes) {
  void* p = allocate_large_slow(bytes);
  return SEEMALLOC_LIKELY(p != nullptr) ? p : new_slow(bytes, kUnaligned);
}
SEEMALLOC_ALWAYS_INLINE void* new_base(size_t bytes) {
  return new_small<AllSmall, new_large, new_slow>(bytes);
}
SEEMALLOC_ALWAYS_INLINE void* new_base(size_t bytes, align_val_t a) {
  return new_small<AllSmall, new_block<align_val_t>, new_slow>(bytes, a);
}

// ---- the operators that call others ----

template <typename... Alignment>
SEEMALLOC_NOINLINE void* new_array_checked(size_t bytes, Alignment... a) {
  return no_operator_replaced() ? new_block(bytes, a...) : ::operator new(bytes, a...);
}

// Catches every exception of the program's operator.
template <bool kIsArray, typename... Alignment>
SEEMALLOC_NOINLINE void* new_nothrow_checked(size_t bytes, Alignment... a) noexcept {
  if (no_operator_replaced()) return new_block_nothrow(bytes, a...);
  try {
    return kIsArray ? ::operator new[](bytes, a...) : ::operator new(bytes, a...);
  } catch (...) {
    return nullptr;
  }
}

template <bool kIsArray, typename... Alignment>
SEEMALLOC_NOINLINE void delete_checked(void* p, Alignment... a) noexcept {
  if (no_operator_replaced()) {
    pages::window.open_guarded_access();
    return deallocate_outside_window(p);
  }
  kIsArray ? ::operator delete[](p, a...) : ::operator delete(p, a...);
}

// new[](bytes), which calls new(bytes).
template <typename... Alignment>
SEEMALLOC_ALWAYS_INLINE void* new_array(size_t bytes, Alignment... a) {
  return new_small<Gated, new_array_checked<Alignment...>, new_slow>(bytes, a...);
}

// The nothrow forms, which call the throwing operator of the same kind.
template <bool kIsArray, typename... Alignment>
SEEMALLOC_ALWAYS_INLINE void* new_nothrow(size_t bytes, Alignment... a) {
  return new_small<Gated, new_nothrow_checked<kIsArray, Alignment...>, new_nothrow_slow>(bytes,
                                                                                         a...);
}

// The forms that call delete[](p) or delete(p).
template <bool kIsArray, typename... Alignment>
SEEMALLOC_ALWAYS_INLINE void delete_by(void* p, Alignment... a) {
  size_t page = pages::window.guarded_page_of(p);
  if (SEEMALLOC_UNLIKELY(page >= pages::window.pages())) return delete_checked<kIsArray>(p, a...);
  deallocate_in(pages::window.span_at(page), p);
}

constexpr bool kSingle = false, kArray = true;

}  // namespace

void* call_new(size_t bytes) { return new_block(bytes); }
void* call_new(size_t bytes, const nothrow_t&) noexcept { return new_block_nothrow(bytes); }
void* call_new(size_t bytes, align_val_t a) { return new_block(bytes, a); }
void* call_new(size_t bytes, align_val_t a, const nothrow_t&) noexcept {
  return new_block_nothrow(bytes, a);
}

}  // namespace seemalloc

#define EXPORTED __attribute__((visibility("default"), weak))
using namespace seemalloc;

EXPORTED void* operator new(size_t bytes) { return new_base(bytes); }
EXPORTED void* operator new(size_t bytes, align_val_t a) { return new_base(bytes, a); }
EXPORTED void operator delete(void* p) noexcept { deallocate(p); }
EXPORTED void operator delete(void* p, align_val_t) noexcept { deallocate(p); }

EXPORTED void* operator new[](size_t bytes) { return new_array(bytes); }
EXPORTED void* operator new[](size_t bytes, align_val_t a) { return new_array(bytes, a); }
EXPORTED void* operator new(size_t bytes, const nothrow_t&) noexcept {
  return new_nothrow<kSingle>(bytes);
}
EXPORTED void* operator new[](size_t bytes, const nothrow_t&) noexcept {
  return new_nothrow<kArray>(bytes);
}
EXPORTED void* operator new(size_t bytes, align_val_t a, const nothrow_t&) noexcept {
  return new_nothrow<kSingle>(bytes, a);
}
EXPORTED void* operator new[](size_t bytes, align_val_t a, const nothrow_t&) noexcept {
  return new_nothrow<kArray>(bytes, a);
}

EXPORTED void operator delete[](void* p) noexcept { delete_by<kSingle>(p); }
EXPORTED void operator delete(void* p, size_t) noexcept { delete_by<kSingle>(p); }
EXPORTED void operator delete(void* p, const nothrow_t&) noexcept { delete_by<kSingle>(p); }
EXPORTED void operator delete[](void* p, size_t) noexcept { delete_by<kArray>(p); }
EXPORTED void operator delete[](void* p, const nothrow_t&) noexcept { delete_by<kArray>(p); }
EXPORTED void operator delete[](void* p, align_val_t a) noexcept { delete_by<kSingle>(p, a); }
EXPORTED void operator delete(void* p, size_t, align_val_t a) noexcept { delete_by<kSingle>(p, a); }
EXPORTED void operator delete(void* p, align_val_t a, const nothrow_t&) noexcept {
  delete_by<kSingle>(p, a);
}
EXPORTED void operator delete[](void* p, size_t, align_val_t a) noexcept {
  delete_by<kArray>(p, a);
}
EXPORTED void operator delete[](void* p, align_val_t a, const nothrow_t&) noexcept {
  delete_by<kArray>(p, a);
}
