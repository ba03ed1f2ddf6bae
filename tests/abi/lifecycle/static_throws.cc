// A program that refers to no throwing part of the C++ runtime except through `new`: it must still
// get std::bad_alloc. Linked with the archive in every way that has the runtime as an archive, too.
#include <cstdint>
#include <cstring>
#include <new>

#include "expect.h"

namespace {

template <typename New>
void expect_bad_alloc(New call) {
  try {
    volatile char* block = static_cast<char*>(call());
    EXPECT(block == nullptr);
    EXPECT(!"an exception");
  } catch (const std::bad_alloc& e) {
    EXPECT(strcmp(e.what(), "std::bad_alloc") == 0);
  }
}

}  // namespace

int main() {
  volatile size_t too_much = PTRDIFF_MAX;
  expect_bad_alloc([&] { return ::operator new(too_much); });
  expect_bad_alloc([&] { return ::operator new[](too_much); });
  expect_bad_alloc([&] { return ::operator new(too_much, std::align_val_t(64)); });
  expect_bad_alloc([&] { return ::operator new[](too_much, std::align_val_t(4096)); });
  expect_bad_alloc([&] { return ::operator new(1, std::align_val_t(255)); });
  EXPECT(::operator new(too_much, std::nothrow) == nullptr);
  EXPECT(::operator new[](too_much, std::align_val_t(64), std::nothrow) == nullptr);
  return ok();
}
