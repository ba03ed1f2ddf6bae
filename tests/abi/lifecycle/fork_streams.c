// fork concurrent with the C library's streams: threads that open, read and close files, one that
// flushes all of them, and two that fork. fork waits for the list of streams, the list's holder for
// a stream, and the stream's holder for malloc. The child uses streams, also in a new thread: every
// lock has to be free there.
//   fork_streams [alone]   fork while there is one thread, and then threads in the child only
#include <pthread.h>
#include <sys/wait.h>

#include "expect.h"

enum { kForks = 300 };
static volatile int stop;
static char path[64];

static void read_file(void) {
  FILE* file = fopen(path, "r");
  EXPECT(file != NULL);
  char* line = NULL;
  size_t bytes = 0;
  while (getline(&line, &bytes, file) > 0) {
  }
  free(line);
  EXPECT(fclose(file) == 0);
}

static void* read_files(void* unused) {
  while (!stop) read_file();
  return unused;
}

static void* flush_all(void* unused) {
  while (!stop) fflush(NULL);
  return unused;
}

static void* use_streams(void* unused) {
  read_file();
  fflush(NULL);
  return unused;
}

static void child(void) {
  alarm(120);
  use_streams(NULL);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, use_streams, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  _exit(0);
}

static void* fork_often(void* unused) {
  for (int i = 0; i < kForks; i++) {
    pid_t pid = fork();
    if (pid == 0) child();
    int status = 0;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return unused;
}

static void write_file(void) {
  snprintf(path, sizeof(path), "/tmp/fork_streams.%d", (int)getpid());
  FILE* file = fopen(path, "w");
  EXPECT(file != NULL);
  for (int line = 0; line < 100; line++) fprintf(file, "%*d\n", line * 60, line);
  EXPECT(fclose(file) == 0);
}

int main(int argc, char** argv) {
  (void)argv;
  alarm(600);
  expect_subject();
  write_file();
  if (argc > 1) {
    fork_often(NULL);
  } else {
    pthread_t readers[2], flusher, forkers[2];
    for (int i = 0; i < 2; i++) EXPECT(pthread_create(&readers[i], NULL, read_files, NULL) == 0);
    EXPECT(pthread_create(&flusher, NULL, flush_all, NULL) == 0);
    for (int i = 0; i < 2; i++) EXPECT(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0);
    for (int i = 0; i < 2; i++) EXPECT(pthread_join(forkers[i], NULL) == 0);
    stop = 1;
    for (int i = 0; i < 2; i++) EXPECT(pthread_join(readers[i], NULL) == 0);
    EXPECT(pthread_join(flusher, NULL) == 0);
  }
  unlink(path);
  return ok();
}
