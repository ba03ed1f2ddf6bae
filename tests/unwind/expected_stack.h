// Stacks that a program records itself: each function notes its return address, and a capture must
// find exactly these addresses. For C and C++; the programs that include this file are linked with
// libseemalloc.a and capture.cc.
//
// A function begins with PUSH_FRAME() and ends with POP_FRAME(). SKIP_FOREIGN_FRAMES() stands for
// the frames of code that notes nothing (qsort, a signal frame). check() compares, and ends the
// program at the first difference.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture.h"

#define NOINLINE __attribute__((noipa))
// Keeps a call from becoming a jump, so that its frame exists.
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

enum { kMaxNoted = 400, kOthers = 1, kMaxOthers = 8, kLibraryStart = 5 };
// Volatile: glibc declares that raise() calls no function of the program.
static __thread volatile uintptr_t expected_frames[kMaxNoted];
static __thread volatile int expected_count;
static __thread long checks;

static inline void push_word(uintptr_t word) {
  expected_frames[expected_count] = word;
  expected_count = expected_count + 1;
}
static inline void pop_word(void) { expected_count = expected_count - 1; }
#define PUSH_FRAME() push_word((uintptr_t)__builtin_return_address(0))
#define SKIP_FOREIGN_FRAMES() push_word(kOthers)
#define POP_FRAME() pop_word()

static void difference(const struct captured* stack, const char* what) {
  fprintf(stderr, "%s; check %ld%s%s\n", what, checks, stack->broken ? ", broken" : "",
          stack->truncated ? ", truncated" : "");
  for (int i = 0; i < stack->depth || i < expected_count; i++) {
    uintptr_t found = i < stack->depth ? stack->pcs[i] : 0,
              expected = i < expected_count ? expected_frames[expected_count - 1 - i] : 0;
    fprintf(stderr, "%3d found %12lx noted %12lx\n", i, (unsigned long)found,
            (unsigned long)expected);
  }
  _exit(1);
}

// Matches the noted frames from `at` on; returns the index behind them.
static int match_noted(const struct captured* stack, int at) {
  for (int i = expected_count - 1; i >= 0; i--) {
    int skipped = 0;
    if (expected_frames[i] == kOthers) {
      i--;
      while (at < stack->depth && stack->pcs[at] != expected_frames[i]) at++, skipped++;
    }
    if (at == stack->depth && stack->truncated) return at;
    if (skipped > kMaxOthers) difference(stack, "too many unknown frames");
    if (at == stack->depth || stack->pcs[at] != expected_frames[i])
      difference(stack, "not the frames that were called");
    at++;
  }
  return at;
}

// The captured stack of the caller must be the noted one, up to the thread's first frame.
static NOINLINE void check(void) {
  PUSH_FRAME();
  struct captured stack;
  capture(&stack);
  checks++;
  int at = 0;
  while (at < stack.depth && stack.pcs[at] != expected_frames[expected_count - 1]) at++;
  if (at > 2) difference(&stack, "the caller's frame is not there");
  at = match_noted(&stack, at);
#ifdef NO_TABLES_IN_LIBC
  (void)at;
#else
  if (stack.broken) difference(&stack, "broken");
  if (!stack.truncated && stack.depth - at > kLibraryStart)
    difference(&stack, "frames beyond the first");
#endif
  POP_FRAME();
}
