// The core's own memcpy, memmove, memset, memcmp and strlen. Included before everything else in
// each file of the core.
//
// A program may define these names in front of the C library's, with functions that allocate or
// that use thread-local memory, which the helper thread does not have
// (core/os/runtime/bare_thread.h). So the calls that the core writes, and those that the compiler
// adds, go to hidden functions of other names. Where this is impossible they stay the C library's:
// clang ignores these names for the calls that it adds, and the sanitizers must see each call.
//
// libc_memcpy and libc_memset are the C library's: faster for large blocks. Use them only on the
// program's threads, without locks: for the copy of realloc and the zeros of calloc.
#pragma once

#include <stddef.h>

#if defined(__clang__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEMALLOC_NAME(name)
#else
#define SEEMALLOC_HAS_OWN_MEMORY
#define SEEMALLOC_NAME(name) __asm__("seemalloc_" name)
// gcc ignores -fvisibility=hidden and the attribute for functions that it knows.
__asm__(
    ".hidden seemalloc_memcpy, seemalloc_memmove, seemalloc_memset\n"
    ".hidden seemalloc_memcmp, seemalloc_strlen");
#endif

extern "C" {
void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) noexcept
    SEEMALLOC_NAME("memcpy");
void* memmove(void* to, const void* from, size_t bytes) noexcept SEEMALLOC_NAME("memmove");
void* memset(void* to, int value, size_t bytes) noexcept SEEMALLOC_NAME("memset");
int memcmp(const void* a, const void* b, size_t bytes) noexcept SEEMALLOC_NAME("memcmp");
size_t strlen(const char* s) noexcept SEEMALLOC_NAME("strlen");

void* libc_memcpy(void* __restrict to, const void* __restrict from, size_t bytes) noexcept
    __asm__("memcpy");
void* libc_memset(void* to, int value, size_t bytes) noexcept __asm__("memset");
}

#undef SEEMALLOC_NAME
