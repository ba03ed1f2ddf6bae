// One misuse of the heap per run: misuse KIND SIZE [OPERATION]
//
// OPERATION is the call that receives a pointer outside the heap: free (the default), realloc,
// malloc_usable_size, or C++'s delete, sized_delete or aligned_delete. Prints "pointer 0x…", the
// wrong pointer, before the misuse, and "survived" after it and after some more use of the heap.
// The table of expected results is in misuse_test.cc.
#define _GNU_SOURCE
#include <dlfcn.h>
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

// Hides the pointer from the compiler, which must not see that it is wrong.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}
// Prints the pointer, without an allocation that could reuse the freed memory.
static void announce(void* p) {
  char line[64];
  int length = snprintf(line, sizeof(line), "pointer %p\n", p);
  if (write(1, line, (size_t)length) != length) _exit(3);
}
static const char* operation = "free";
static void give_back(void* p) {
  if (strcmp(operation, "realloc") == 0) {
    void* moved = hidden(realloc(hidden(p), size * 2 + 500));
    if (moved != NULL) memset(moved, 1, size);
  } else if (strcmp(operation, "malloc_usable_size") == 0) {
    size_t bytes = malloc_usable_size(hidden(p));
    hidden((void*)bytes);
  } else if (strstr(operation, "delete") != NULL) {
    // The calls of a C++ program; in a process without a C++ allocator, free is called instead.
    int is_sized = strcmp(operation, "sized_delete") == 0,
        is_aligned = strcmp(operation, "aligned_delete") == 0;
    void* call = dlsym(RTLD_DEFAULT, is_sized     ? "_ZdlPvm"
                                     : is_aligned ? "_ZdlPvSt11align_val_t"
                                                  : "_ZdlPv");
    if (call == NULL) {
      free(hidden(p));
    } else if (is_sized || is_aligned) {
      ((void (*)(void*, size_t))call)(hidden(p), 64);
    } else {
      ((void (*)(void*))call)(hidden(p));
    }
  } else {
    free(hidden(p));
  }
}
static void wrong_free(void* p) {
  announce(p);
  give_back(p);
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
static void interior_page(void) {
  wrong_free((char*)(((uintptr_t)taken() + 4096) & ~(uintptr_t)4095));
}
static void misaligned_1(void) { wrong_free((char*)taken() + 1); }
static void misaligned_8(void) { wrong_free((char*)taken() + 8); }
static void realloc_interior(void) {
  char* p = (char*)taken() + 16;
  announce(p);
  hidden(realloc(hidden(p), size * 2));
}
static void interior_in_thread(void) { in_thread(wrong_free_it, (char*)taken() + 16); }

// ---- not from the heap ----
static const char constant_bytes[256] __attribute__((aligned(64))) = "constant";
static char initialised_bytes[256] __attribute__((aligned(64))) = "data";
static __thread char thread_bytes[256] __attribute__((aligned(64)));

static void stack(void) {
  char bytes[256] __attribute__((aligned(64)));
  memset(bytes, 0, sizeof(bytes));
  free(malloc(size));
  wrong_free(hidden(bytes + 64));
}
static void* stack_in(void* unused) {
  (void)unused;
  stack();
  return NULL;
}
static void stack_of_thread(void) { in_thread(stack_in, NULL); }
static void main_stack_in_thread(void) {
  char bytes[256] __attribute__((aligned(64)));
  memset(bytes, 0, sizeof(bytes));
  in_thread(wrong_free_it, hidden(bytes + 64));
}
static pthread_barrier_t shown;
static void* show_stack(void* where) {
  char bytes[256] __attribute__((aligned(64)));
  memset(bytes, 0, sizeof(bytes));
  *(char**)where = hidden(bytes + 64);
  pthread_barrier_wait(&shown);
  pthread_barrier_wait(&shown);
  return NULL;
}
static void stack_of_other_thread(void) {
  void* there = NULL;
  pthread_t thread;
  pthread_barrier_init(&shown, NULL, 2);
  pthread_create(&thread, NULL, show_stack, &there);
  pthread_barrier_wait(&shown);
  wrong_free(there);
  pthread_barrier_wait(&shown);
  pthread_join(thread, NULL);
}
static void thread_local_data(void) {
  memset(hidden(thread_bytes), 0, sizeof(thread_bytes));
  wrong_free(hidden(thread_bytes + 64));
}
static void* thread_local_in(void* unused) {
  (void)unused;
  thread_local_data();
  return NULL;
}
static void thread_local_data_in_thread(void) { in_thread(thread_local_in, NULL); }
static void static_data(void) { wrong_free(hidden(static_bytes + 64)); }
static void static_initialised_data(void) { wrong_free(hidden(initialised_bytes + 64)); }
static void constant_data(void) { wrong_free(hidden((void*)(constant_bytes + 64))); }
static void library_data(void) { wrong_free(hidden((void*)((uintptr_t)stdin & ~(uintptr_t)15))); }
static void code(void) { wrong_free(hidden((void*)((uintptr_t)&stack & ~(uintptr_t)15))); }
static char* mapping(int rights) {
  char* p = mmap(NULL, 65536, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) _exit(3);
  return p;
}
static void own_mapping(void) { wrong_free(mapping(PROT_READ | PROT_WRITE) + 4096 + 64); }
static void start_of_own_mapping(void) { wrong_free(mapping(PROT_READ | PROT_WRITE)); }
static void no_access(void) { wrong_free(mapping(PROT_NONE) + 4096 + 64); }
static void mapped_file(void) {
  FILE* file = fopen("/proc/self/exe", "r");
  char* p =
      file == NULL ? NULL : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
  if (p == NULL || p == MAP_FAILED) _exit(3);
  memset(p, 0, 4096);
  wrong_free(p + 64);
}
static void brk_memory(void) {
  char* p = sbrk(65536);
  if (p == (char*)-1) _exit(3);
  wrong_free((char*)(((uintptr_t)p + 4096) & ~(uintptr_t)15));
}
static void unmapped(void) {
  char* p = mapping(PROT_READ | PROT_WRITE);
  munmap(p, 65536);
  wrong_free(p + 4096 + 64);
}
static void low_address(void) { wrong_free(hidden((void*)(uintptr_t)0x10000)); }
static void small_number(void) { wrong_free(hidden((void*)(uintptr_t)0x10)); }
static void last_address(void) { wrong_free(hidden((void*)~(uintptr_t)15)); }
static void not_canonical(void) { wrong_free(hidden((void*)(uintptr_t)0xdeadbeefdeadbee0)); }
static void kernel_address(void) { wrong_free(hidden((void*)(uintptr_t)0xffffffff81000000)); }

// ---- a block of the C library, allocated by a name of its malloc that is not replaced ----
static void* libc_block(size_t bytes) {
  void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void* (*allocate)(size_t) =
      library == NULL ? NULL : (void* (*)(size_t))dlsym(library, "__libc_malloc");
  void* p = allocate == NULL ? NULL : allocate(bytes);
  if (p == NULL) _exit(3);
  return memset(p, 0x2f, bytes);
}
static void libc_interior(void) { wrong_free((char*)libc_block(size + 64) + 32); }
static void libc_misaligned(void) { wrong_free((char*)libc_block(size) + 8); }
static void libc_freed(void) {
  void* p = libc_block(size);
  void* behind = libc_block(size);
  free(hidden(p));
  wrong_free(p);
  hidden(behind);
}
// Not a misuse.
static void libc_blocks(void) {
  for (size_t bytes = 1; bytes < 40 * size; bytes += bytes / 3 + 1) wrong_free(libc_block(bytes));
}
static void* libc_blocks_in(void* unused) {
  (void)unused;
  libc_blocks();
  return NULL;
}
static void libc_blocks_in_thread(void) { in_thread(libc_blocks_in, NULL); }

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
#define KIND(name) \
  { #name, name }
static const struct Kind kinds[] = {KIND(double_now),
                                    KIND(double_after_others),
                                    KIND(double_with_one_between),
                                    KIND(double_in_thread),
                                    KIND(double_from_thread),
                                    KIND(double_in_two_threads),
                                    KIND(double_of_exited_threads),
                                    KIND(double_aligned),
                                    KIND(double_after_realloc),
                                    KIND(interior_16),
                                    KIND(interior_middle),
                                    KIND(interior_page),
                                    KIND(misaligned_1),
                                    KIND(misaligned_8),
                                    KIND(realloc_interior),
                                    KIND(interior_in_thread),
                                    KIND(stack),
                                    KIND(stack_of_thread),
                                    KIND(main_stack_in_thread),
                                    KIND(stack_of_other_thread),
                                    KIND(thread_local_data),
                                    KIND(thread_local_data_in_thread),
                                    KIND(static_data),
                                    KIND(static_initialised_data),
                                    KIND(constant_data),
                                    KIND(library_data),
                                    KIND(code),
                                    KIND(own_mapping),
                                    KIND(start_of_own_mapping),
                                    KIND(no_access),
                                    KIND(mapped_file),
                                    KIND(brk_memory),
                                    KIND(unmapped),
                                    KIND(low_address),
                                    KIND(small_number),
                                    KIND(last_address),
                                    KIND(not_canonical),
                                    KIND(kernel_address),
                                    KIND(libc_interior),
                                    KIND(libc_misaligned),
                                    KIND(libc_freed),
                                    KIND(libc_blocks),
                                    KIND(libc_blocks_in_thread),
                                    KIND(overwritten_by_text),
                                    KIND(overwritten_by_zero),
                                    KIND(overwritten_by_stack_pointer),
                                    KIND(overwritten_low_byte),
                                    KIND(overwritten_in_list),
                                    KIND(realloc_freed),
                                    KIND(usable_size_of_freed),
                                    KIND(overflow)};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argc > 3) operation = argv[3];
  size = strtoul(argv[2], NULL, 10);
  for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (strcmp(kinds[i].name, argv[1]) != 0) continue;
    // A heap that has been used: some blocks are live, some free.
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
