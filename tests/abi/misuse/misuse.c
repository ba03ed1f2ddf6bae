// One misuse of the heap per run: misuse KIND SIZE
//
// Prints "pointer 0x…", the pointer that is given wrongly, before the misuse, and "survived" after it and after a little
// more use of the heap. The table of what must come of each is in misuse_test.cc.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t size;
static char static_bytes[256] __attribute__((aligned(64)));

// The compiler must not see that these are wrong.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}
// Says which pointer it will be, without an allocation that could take the freed memory again.
static void announce(void* p) {
  char line[64];
  int length = snprintf(line, sizeof(line), "pointer %p\n", p);
  if (write(1, line, (size_t)length) != length) _exit(3);
}
static void wrong_free(void* p) {
  announce(p);
  free(hidden(p));
}
static void* taken(void) {
  char* p = hidden(malloc(size));
  memset(p, 0x2e, size);
  return p;
}

static void* free_it(void* p) {
  free(hidden(p));
  return NULL;
}
static void* wrong_free_it(void* p) {
  wrong_free(p);
  return NULL;
}
static void in_thread(void* (*f)(void*), void* p) {
  pthread_t thread;
  pthread_create(&thread, NULL, f, p);
  pthread_join(thread, NULL);
}

// ---- freed twice ----
static void double_now(void) {
  void* p = taken();
  free(p);
  wrong_free(p);
}
static void double_after_others(void) {
  void* others[10];
  void* p = taken();
  for (int i = 0; i < 10; i++) others[i] = taken();
  free(hidden(p));
  for (int i = 0; i < 10; i++) free(others[i]);
  wrong_free(p);
}
static void double_with_one_between(void) {
  void* p = taken();
  void* q = taken();
  free(hidden(p));
  free(q);
  wrong_free(p);
}
static void double_in_thread(void) {
  void* p = taken();
  free(hidden(p));
  in_thread(wrong_free_it, p);
}
static void double_from_thread(void) {
  void* p = taken();
  in_thread(free_it, p);
  wrong_free(p);
}
static void double_in_two_threads(void) {
  void* p = taken();
  in_thread(free_it, p);
  in_thread(wrong_free_it, p);
}
static void double_of_exited_threads(void);
static void* take_and_keep(void* p) {
  *(void**)p = taken();
  return NULL;
}
static void double_of_exited_threads(void) {
  void* p = NULL;
  in_thread(take_and_keep, &p);
  free(hidden(p));
  wrong_free(p);
}
static void double_aligned(void) {
  void* p = hidden(memalign(256, size));
  free(hidden(p));
  wrong_free(p);
}
static void double_after_realloc(void) {
  void* p = taken();
  void* q = hidden(realloc(hidden(p), size * 8 + 64));
  if (p == q) {
    free(hidden(q));
  }
  wrong_free(p);
}

// ---- not the start of a block ----
static void interior_16(void) { wrong_free((char*)taken() + 16); }
static void interior_middle(void) { wrong_free((char*)taken() + (size / 2 & ~(size_t)15)); }
static void interior_page(void) { wrong_free((char*)(((uintptr_t)taken() + 4096) & ~(uintptr_t)4095)); }
static void misaligned_1(void) { wrong_free((char*)taken() + 1); }
static void misaligned_8(void) { wrong_free((char*)taken() + 8); }
static void realloc_interior(void) {
  char* p = (char*)taken() + 16;
  announce(p);
  hidden(realloc(hidden(p), size * 2));
}
static void interior_in_thread(void) { in_thread(wrong_free_it, (char*)taken() + 16); }

// ---- not from the heap ----
static void stack(void) {
  char bytes[256] __attribute__((aligned(64)));
  memset(bytes, 0, sizeof(bytes));
  free(malloc(size));
  wrong_free(hidden(bytes + 64));
}
static void static_data(void) { wrong_free(hidden(static_bytes + 64)); }
static void code(void) { wrong_free(hidden((void*)((uintptr_t)&stack & ~(uintptr_t)15))); }
static void own_mapping(void) {
  char* p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  wrong_free(p + 4096 + 64);
}
static void unmapped(void) {
  char* p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(p, 65536);
  wrong_free(p + 4096 + 64);
}
static void low_address(void) { wrong_free(hidden((void*)(uintptr_t)0x10000)); }
static void small_number(void) { wrong_free(hidden((void*)(uintptr_t)0x10)); }
static void not_canonical(void) { wrong_free(hidden((void*)(uintptr_t)0xdeadbeefdeadbee0)); }
static void kernel_address(void) { wrong_free(hidden((void*)(uintptr_t)0xffffffff81000000)); }
static void realloc_stack(void) {
  char bytes[256] __attribute__((aligned(64)));
  memset(bytes, 0, sizeof(bytes));
  announce((bytes + 64));
  void* p = hidden(realloc(hidden(bytes + 64), 500));
  if (p != NULL) memset(p, 1, 500);
}

// ---- used after free ----
static void churn(void) {
  void* more[400];
  for (int i = 0; i < 400; i++) {
    more[i] = hidden(malloc(size));
    if (more[i] != NULL && size >= 16) memset(more[i], 0x31, 16);
  }
  for (int i = 0; i < 400; i++) free(more[i]);
}
static void overwrite_freed(uint64_t value) {
  void* p = taken();
  free(hidden(p));
  announce(p);
  memcpy(hidden(p), &value, sizeof(value));
  churn();
}
static void overwritten_by_text(void) { overwrite_freed(0x4141414141414141); }
static void overwritten_by_zero(void) { overwrite_freed(0); }
static void overwritten_by_stack_pointer(void) {
  static_bytes[0] = 1;
  overwrite_freed((uint64_t)(uintptr_t)(static_bytes + 64));
}
static void overwritten_low_byte(void) {
  // The smallest overflow into a freed neighbour: one byte of its link.
  void* p = taken();
  void* q = taken();
  free(q);
  free(hidden(p));
  announce(p);
  ((volatile char*)hidden(p))[0] ^= 0x08;
  churn();
}
static void overwritten_in_list(void) {
  void* some[20];
  for (int i = 0; i < 20; i++) some[i] = taken();
  for (int i = 0; i < 20; i++) free(some[i]);
  announce(some[10]);
  for (int i = 0; i < 20; i++) memset(hidden(some[i]), 0x41, 16);
  churn();
}
static void realloc_freed(void) {
  void* p = taken();
  free(hidden(p));
  announce(p);
  hidden(realloc(hidden(p), size * 2 + 100));
}
static void usable_size_of_freed(void) {
  void* p = taken();
  free(hidden(p));
  announce(p);
  size_t n = malloc_usable_size(hidden(p));
  hidden((void*)n);
}

// ---- written past the end ----
static void overflow(void) {
  char* p = taken();
  void* q = taken();
  announce(p);
  memset(hidden(p), 0x41, malloc_usable_size(p) + 16);
  free(q);
  free(hidden(p));
  churn();
}

struct Kind {
  const char* name;
  void (*run)(void);
};
#define KIND(name) {#name, name}
static const struct Kind kinds[] = {
    KIND(double_now), KIND(double_after_others), KIND(double_with_one_between), KIND(double_in_thread), KIND(double_from_thread),
    KIND(double_in_two_threads), KIND(double_of_exited_threads), KIND(double_aligned), KIND(double_after_realloc),
    KIND(interior_16), KIND(interior_middle), KIND(interior_page), KIND(misaligned_1), KIND(misaligned_8), KIND(realloc_interior),
    KIND(interior_in_thread), KIND(stack), KIND(static_data), KIND(code), KIND(own_mapping), KIND(unmapped), KIND(low_address),
    KIND(small_number), KIND(not_canonical), KIND(kernel_address), KIND(realloc_stack), KIND(overwritten_by_text),
    KIND(overwritten_by_zero), KIND(overwritten_by_stack_pointer), KIND(overwritten_low_byte), KIND(overwritten_in_list),
    KIND(realloc_freed), KIND(usable_size_of_freed), KIND(overflow)};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  size = strtoul(argv[2], NULL, 10);
  for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (strcmp(kinds[i].name, argv[1]) != 0) continue;
    // A heap that has been used: some blocks live, some free.
    void* warm[64];
    for (int j = 0; j < 64; j++) warm[j] = hidden(malloc(size < 4096 ? size : 100));
    for (int j = 0; j < 64; j += 2) free(warm[j]);
    kinds[i].run();
    for (int j = 1; j < 64; j += 2) free(warm[j]);
    puts("survived");
    return 0;
  }
  return 2;
}
