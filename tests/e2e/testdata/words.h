// For programs that do what their arguments say, one after the other: each is a word, or
// word:number.
//
//   keep:N   allocates N MiB in blocks of 64 KiB, writes to them and keeps them
//   free     frees them
//
// Nothing here allocates but keep().
#pragma once

#include <cstdlib>
#include <cstring>
#include <string_view>

constexpr size_t kEach = 64 << 10;
inline void* kept[1 << 16];
inline size_t kept_blocks;

extern "C" __attribute__((noinline)) inline void keep(size_t mib) {
  for (size_t i = 0; i < mib << 20; i += kEach) {
    kept[kept_blocks] = malloc(kEach);
    memset(kept[kept_blocks++], 1, kEach);
  }
}

// Calls own(word, number) for each word that is the program's own, until one returns a status that
// is not 0; returns the last.
template <typename Own>
int do_words(char** arguments, Own own) {
  for (char** at = arguments + 1; *at != nullptr; at++) {
    std::string_view word = *at;
    size_t colon = word.find(':');
    size_t number = colon == word.npos ? 0 : strtoul(*at + colon + 1, nullptr, 10);
    word = word.substr(0, colon);
    if (word == "keep") {
      keep(number);
    } else if (word == "free") {
      while (kept_blocks > 0) free(kept[--kept_blocks]);
    } else if (int status = own(word, number); status != 0) {
      return status;
    }
  }
  return 0;
}
