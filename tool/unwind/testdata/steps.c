// Runs code of many kinds between two breakpoints, for a test that single-steps it.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

__attribute__((noinline)) static long many_registers(const char* text, long a, long b, long c) {
  long d = a * b, e = b * c, f = a ^ c;
  for (int i = 0; i < 3; i++) {
    d += (long)strlen(text + i) * a;
    e += d ^ b;
    f += (long)strlen(text) * c + e;
  }
  return a + b + c + d + e + f;
}

__attribute__((noinline)) static int realigned(int n) {
  _Alignas(64) volatile char line[64];
  for (int i = 0; i < 64; i += 16) line[i] = (char)n;
  return line[n % 64];
}

static volatile int handled;
static void on_signal(int number) { handled = number; }

int main(void) {
  signal(SIGUSR1, on_signal);
  __asm__ volatile("int3");
  int numbers[] = {4, 3, 2, 1};
  qsort(numbers, 4, sizeof(int), compare);
  char text[64];
  snprintf(text, sizeof(text), "%d %s", numbers[0], "words");
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char* copy = strdup(text);
  long sum = many_registers(copy, numbers[1], numbers[2], now.tv_nsec) + realigned(numbers[3]);
  free(copy);
  raise(SIGUSR1);
  __asm__ volatile("int3");
  return sum == 42;
}
