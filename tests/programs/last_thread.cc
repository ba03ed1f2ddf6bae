// last_thread HOW: ends without calling exit(). The C library exits when the last thread ends; a
// thread of the allocator must not count, or the process would stay forever.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

// Enough memory for the helper thread to be started.
std::vector<std::string> grow() {
  std::vector<std::string> some;
  for (int i = 0; i < 100000; ++i) some.emplace_back(i % 1000, 'x');
  return some;
}

void tell() {
  printf("exit handler ran\n");
  fflush(stdout);
}

void* later(void*) {
  usleep(100000);
  return grow().size() == 100000 ? nullptr : (abort(), nullptr);
}

// The child has one thread, this one, which does not run main(): it ends by returning.
void* fork_here(void*) {
  grow();
  const pid_t pid = fork();
  if (pid == 0) {
    grow();
    return nullptr;
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status != 0) fprintf(stderr, "the child ended with status %x\n", status);
  _exit(status != 0);
}

}  // namespace

int main(int, char** arguments) {
  atexit(tell);
  const auto held = grow();
  pthread_t thread;
  if (pthread_create(&thread, nullptr,
                     strcmp(arguments[1], "child-of-a-thread") ? later : fork_here, nullptr))
    abort();
  pthread_detach(thread);
  if (!strcmp(arguments[1], "child-of-a-thread")) pause();
  pthread_exit(nullptr);
}
