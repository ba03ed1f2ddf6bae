// Prints "ready". Uses CPU time, two thirds of it in burn_two and one third in burn_one, as its
// argument says:
//   for SECONDS   of CPU time in the main thread, then ends
//   threads N     threads one after the other, each of 60 ms
//   fork SECONDS  a forked child uses this much, allocates meanwhile and ends by exit, then 0.2 s
//   leave SECONDS the same, but the child ends by _exit
//   bare          a child made by a bare system call, which ends by exit at once; then 0.2 s
//   exec          0.1 s, then itself with "for 0.2"
//   handler       handles SIGPROF itself, then runs forever
//   kernel        has the kernel map and unmap memory, forever
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void spin() {
  for (int i = 0; i < 100000; i++) asm volatile("" : "+r"(i));
}

}  // namespace

extern "C" {
__attribute__((noipa)) void burn_two(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) spin();
}
__attribute__((noipa)) void burn_one(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) spin();
}
__attribute__((noipa)) void take_and_give_back(char* memory, size_t bytes) {
  memset(memory, 1, bytes);
  madvise(memory, bytes, MADV_DONTNEED);
}
}

namespace {

void burn(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
    burn_two(0.02);
    burn_one(0.01);
  }
}

// The profiler notices a thread that allocates at once.
void* volatile block;
void burn_in_a_thread() {
  block = malloc(10);
  free(block);
  burn(0.04);
}

}  // namespace

extern "C" __attribute__((noipa)) void burn_with_memory(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
    block = malloc(1000000);
    burn(0.03);
    free(block);
  }
}

namespace {

void by_the_program(int) {}

[[noreturn]] void use_the_kernel() {
  constexpr size_t kBytes = 32 << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, kBytes, MADV_NOHUGEPAGE);
  for (;;) take_and_give_back(static_cast<char*>(memory), kBytes);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  if (write(1, "ready\n", 6) != 6) return 1;
  if (what == "for") {
    burn(argc > 2 ? atof(argv[2]) : 1);
  } else if (what == "threads") {
    for (int i = 0; i < atoi(argv[2]); i++) std::thread(burn_in_a_thread).join();
  } else if (what == "fork" || what == "leave") {
    if (fork() == 0) {
      burn_with_memory(atof(argv[2]));
      what == "fork" ? exit(0) : _exit(0);
    }
    wait(nullptr);
    burn(0.2);
  } else if (what == "bare") {
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) exit(0);
    wait(nullptr);
    burn(0.2);
  } else if (what == "exec") {
    burn(0.1);
    if (fork() == 0) execl("/proc/self/exe", "burn", "for", "0.2", nullptr);
    wait(nullptr);
  } else if (what == "handler") {
    signal(SIGPROF, by_the_program);
    burn(1e9);
  } else if (what == "kernel") {
    use_the_kernel();
  } else {
    return 2;
  }
}
