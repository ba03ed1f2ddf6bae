#include "core/base/own_memory.h"

#include <cstdint>

#include "core/base/compiler.h"

#ifdef SEEMALLOC_HAS_OWN_MEMORY

namespace {

typedef uint64_t Words2x8 __attribute__((vector_size(16)));

// A word at any address, of memory of any type.
template <class Word>
struct __attribute__((packed, may_alias)) Unaligned {
  Word word;
};

// From this length on, the processor's string instructions are faster than a loop.
constexpr size_t kLong = 1024;

template <class Word>
SEEMALLOC_ALWAYS_INLINE Word load(const char* from) {
  return reinterpret_cast<const Unaligned<Word>*>(from)->word;
}
template <class Word>
SEEMALLOC_ALWAYS_INLINE void store(char* to, Word word) {
  reinterpret_cast<Unaligned<Word>*>(to)->word = word;
}

// Copies sizeof(Word) to 2 * sizeof(Word) bytes as two words that may overlap. Loads both first:
// the ranges may overlap, too.
template <class Word>
SEEMALLOC_ALWAYS_INLINE void copy_ends(char* to, const char* from, size_t bytes) {
  Word first = load<Word>(from), last = load<Word>(from + bytes - sizeof(Word));
  store(to, first);
  store(to + bytes - sizeof(Word), last);
}

SEEMALLOC_ALWAYS_INLINE void copy_short(char* to, const char* from, size_t bytes) {
  if (bytes >= 16) return copy_ends<Words2x8>(to, from, bytes);
  if (bytes >= 8) return copy_ends<uint64_t>(to, from, bytes);
  if (bytes >= 4) return copy_ends<uint32_t>(to, from, bytes);
  if (bytes >= 2) return copy_ends<uint16_t>(to, from, bytes);
  if (bytes == 1) *to = *from;
}

// The part at the end is loaded before the loop may overwrite it.
SEEMALLOC_ALWAYS_INLINE void copy_up(char* to, const char* from, size_t bytes) {
  Words2x8 last = load<Words2x8>(from + bytes - 16);
  for (size_t at = 0; at + 16 < bytes; at += 16) store(to + at, load<Words2x8>(from + at));
  store(to + bytes - 16, last);
}

SEEMALLOC_ALWAYS_INLINE void copy_down(char* to, const char* from, size_t bytes) {
  Words2x8 first = load<Words2x8>(from);
  for (size_t at = bytes; at > 16; at -= 16) store(to + at - 16, load<Words2x8>(from + at - 16));
  store(to, first);
}

SEEMALLOC_ALWAYS_INLINE void copy_apart(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kLong) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  copy_up(to, from, bytes);
}

template <class Word>
SEEMALLOC_ALWAYS_INLINE void set_ends(char* to, Word word, size_t bytes) {
  store(to, word);
  store(to + bytes - sizeof(Word), word);
}

SEEMALLOC_ALWAYS_INLINE void set_short(char* to, uint64_t word, size_t bytes) {
  if (bytes >= 8) return set_ends<uint64_t>(to, word, bytes);
  if (bytes >= 4) return set_ends<uint32_t>(to, static_cast<uint32_t>(word), bytes);
  if (bytes >= 2) return set_ends<uint16_t>(to, static_cast<uint16_t>(word), bytes);
  if (bytes == 1) *to = static_cast<char>(word);
}

}  // namespace

extern "C" {

void* memmove(void* to, const void* from, size_t bytes) noexcept {
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  size_t above = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (bytes <= 32) {
    copy_short(target, source, bytes);
  } else if (above < bytes) {
    copy_down(target, source, bytes);
  } else if (0 - above < bytes) {
    copy_up(target, source, bytes);
  } else {
    copy_apart(target, source, bytes);
  }
  return to;
}

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) noexcept {
  if (bytes <= 32) {
    copy_short(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  } else {
    copy_apart(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  }
  return to;
}

void* memset(void* to, int value, size_t bytes) noexcept {
  char* target = static_cast<char*>(to);
  uint64_t word = static_cast<unsigned char>(value) * 0x0101010101010101u;
  if (bytes < 16) {
    set_short(target, word, bytes);
    return to;
  }
#if defined(__x86_64__)
  if (bytes >= kLong) {
    char* at = target;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
    return to;
  }
#endif
  Words2x8 words{word, word};
  for (size_t at = 0; at + 16 < bytes; at += 16) store(target + at, words);
  store(target + bytes - 16, words);
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) noexcept {
  const char *x = static_cast<const char*>(a), *y = static_cast<const char*>(b);
  size_t at = 0;
  while (at + 8 <= bytes && load<uint64_t>(x + at) == load<uint64_t>(y + at)) at += 8;
  for (; at < bytes; at++) {
    if (x[at] != y[at])
      return static_cast<unsigned char>(x[at]) - static_cast<unsigned char>(y[at]);
  }
  return 0;
}

size_t strlen(const char* s) noexcept {
  size_t length = 0;
  while (s[length] != 0) length++;
  return length;
}

}  // extern "C"

#endif
