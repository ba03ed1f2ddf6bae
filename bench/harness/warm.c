// warm MIB: touches this much memory and ends. The runner (bench/run) calls it before each run.
//
// A virtual machine's host may reclaim memory that its guest does not use (free page reporting, two
// seconds after it was freed), and a page fault there then takes several times as long. Without
// this program, the run after a pause, and the run with the largest heap, would pay for it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char** arguments) {
  char* end = NULL;
  unsigned long mib = count == 2 ? strtoul(arguments[1], &end, 10) : 0;
  if (mib == 0 || *end != '\0') {
    fprintf(stderr, "warm: expected one argument, MiB to be touched, above 0\n");
    return 2;
  }
  size_t bytes = mib << 20;
  char* memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("warm: mmap");
    return 1;
  }
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // the small pages that the measured runs get
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t offset = 0; offset < bytes; offset += page) memory[offset] = 1;
  return 0;
}
