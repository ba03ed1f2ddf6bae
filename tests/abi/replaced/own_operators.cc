// The operators of the test program, with a pool of their own. In this file they have other names;
// for each subset, run.py renames its members to the real names with objcopy. Each subset is then a
// program that replaces exactly these operators.
#include <cstdint>
#include <cstdlib>

#include "forms.h"

CallRecord seen;
bool refuse;
unsigned freed;

namespace {

alignas(8192) char pool[512 << 20];
size_t used;

void* give(Form form, size_t bytes, size_t alignment) {
  seen = {seen.calls + 1, form, nullptr, bytes, alignment};
  if (refuse) throw Refused();
  size_t step = alignment > 64 ? alignment : 64;
  used = (used + step - 1) / step * step;
  if (bytes > sizeof(pool) - used) abort();
  seen.block = pool + used;
  used += bytes + 1;
  return seen.block;
}
void* give_nothrow(Form form, size_t bytes, size_t alignment) noexcept {
  bool refused = refuse;
  refuse = false;
  void* block = give(form, bytes, alignment);
  refuse = refused;
  return refused ? nullptr : block;
}
// The block is from the program's pool or from malloc, as in a program that replaces only operator
// delete.
void take(Form form, void* block, size_t bytes, size_t alignment) noexcept {
  seen = {seen.calls + 1, form, block, bytes, alignment};
  if (is_of_pool(block)) {
    freed++;
  } else {
    free(block);
  }
}

}  // namespace

bool is_of_pool(const void* block) {
  return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(pool) < sizeof(pool);
}

using A = std::align_val_t;
using N = const std::nothrow_t&;
#define OWN(result, symbol, form, parameters, ...)     \
  result own_##form parameters __asm__("own" #symbol); \
  result own_##form parameters { return __VA_ARGS__; }

OWN(void*, _Znwm, kNew, (size_t n), give(kNew, n, 0))
OWN(void*, _Znam, kNewArray, (size_t n), give(kNewArray, n, 0))
OWN(void*, _ZnwmSt11align_val_t, kNewAligned, (size_t n, A a), give(kNewAligned, n, size_t(a)))
OWN(void*, _ZnamSt11align_val_t, kNewArrayAligned, (size_t n, A a),
    give(kNewArrayAligned, n, size_t(a)))
OWN(void*, _ZnwmRKSt9nothrow_t, kNewNothrow, (size_t n, N) noexcept,
    give_nothrow(kNewNothrow, n, 0))
OWN(void*, _ZnamRKSt9nothrow_t, kNewArrayNothrow, (size_t n, N) noexcept,
    give_nothrow(kNewArrayNothrow, n, 0))
OWN(void*, _ZnwmSt11align_val_tRKSt9nothrow_t, kNewAlignedNothrow, (size_t n, A a, N) noexcept,
    give_nothrow(kNewAlignedNothrow, n, size_t(a)))
OWN(void*, _ZnamSt11align_val_tRKSt9nothrow_t, kNewArrayAlignedNothrow, (size_t n, A a, N) noexcept,
    give_nothrow(kNewArrayAlignedNothrow, n, size_t(a)))
OWN(void, _ZdlPv, kDelete, (void* p) noexcept, take(kDelete, p, 0, 0))
OWN(void, _ZdaPv, kDeleteArray, (void* p) noexcept, take(kDeleteArray, p, 0, 0))
OWN(void, _ZdlPvm, kDeleteSized, (void* p, size_t n) noexcept, take(kDeleteSized, p, n, 0))
OWN(void, _ZdaPvm, kDeleteArraySized, (void* p, size_t n) noexcept,
    take(kDeleteArraySized, p, n, 0))
OWN(void, _ZdlPvRKSt9nothrow_t, kDeleteNothrow, (void* p, N) noexcept,
    take(kDeleteNothrow, p, 0, 0))
OWN(void, _ZdaPvRKSt9nothrow_t, kDeleteArrayNothrow, (void* p, N) noexcept,
    take(kDeleteArrayNothrow, p, 0, 0))
OWN(void, _ZdlPvSt11align_val_t, kDeleteAligned, (void* p, A a) noexcept,
    take(kDeleteAligned, p, 0, size_t(a)))
OWN(void, _ZdaPvSt11align_val_t, kDeleteArrayAligned, (void* p, A a) noexcept,
    take(kDeleteArrayAligned, p, 0, size_t(a)))
OWN(void, _ZdlPvmSt11align_val_t, kDeleteSizedAligned, (void* p, size_t n, A a) noexcept,
    take(kDeleteSizedAligned, p, n, size_t(a)))
OWN(void, _ZdaPvmSt11align_val_t, kDeleteArraySizedAligned, (void* p, size_t n, A a) noexcept,
    take(kDeleteArraySizedAligned, p, n, size_t(a)))
OWN(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, kDeleteAlignedNothrow, (void* p, A a, N) noexcept,
    take(kDeleteAlignedNothrow, p, 0, size_t(a)))
OWN(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, kDeleteArrayAlignedNothrow,
    (void* p, A a, N) noexcept, take(kDeleteArrayAlignedNothrow, p, 0, size_t(a)))
