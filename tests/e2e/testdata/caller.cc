// Makes the allocator issue known system calls, from functions with known names, as commanded on
// standard input or by its arguments.
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static constexpr int kBlocks = 100;
static constexpr size_t kBytes = 64 << 10;
static char* blocks[kBlocks];

static char* volatile ballast;  // never touched
#define KNOWN extern "C" __attribute__((noinline)) void

// One mmap and one munmap. The block is not cached, because `ballast` keeps it smaller than the
// memory in use.
KNOWN take_huge() {
  char* block = static_cast<char*>(malloc(size_t{100} << 20));
  *static_cast<volatile char*>(block) = 1;
  free(block);
  asm volatile("");
}

// Half as many holes as blocks, with a live block between any two: one madvise each.
KNOWN give_back_holes() {
  for (char*& block : blocks) {
    block = static_cast<char*>(malloc(kBytes));
    memset(block, 1, kBytes);
  }
  malloc_trim(0);
  for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
  malloc_trim(0);
  asm volatile("");
}

// A child that only exits, with its exit handlers.
static void fork_and_wait() {
  pid_t child = fork();
  if (child == 0) exit(0);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
}

static void obey(int command) {
  if (command == 'f') fork_and_wait();
  if (command == 'h') take_huge();
  if (command == 'g') give_back_holes();
  if (command == 'x') exit(3);
  if (command == 'k') raise(SIGKILL);
  if (command == 'w') sleep(1);
  if (command == '\n') {
    puts("done");
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  ballast = static_cast<char*>(malloc(size_t{200} << 20));
  malloc_trim(0);
  puts("ready");
  fflush(stdout);
  if (argc > 1) {
    for (const char* command = argv[1]; *command != 0; command++) obey(*command);
    return 0;
  }
  for (int command; (command = getchar()) != EOF;) obey(command);
}
