// A setuid program ignores the environment variables. Linked with libseemalloc.a (the dynamic
// linker drops LD_PRELOAD for setuid programs).
//   secure                   makes a setuid copy of itself and runs it; needs root
//   secure inside            prints whether it is AT_SECURE; its environment has SEEMALLOC_CONF and
//   other allocators' variables with
//                            unknown settings
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "expect.h"

static int inside(void) {
  free(malloc(100));
  printf("%lu\n", getauxval(AT_SECURE));
  return 0;
}

// Runs `program inside` and stores its stdout and stderr in buffers.
static void run(const char* program, char* out, char* err, size_t size) {
  int pipes[2][2];
  EXPECT(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
  pid_t pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    dup2(pipes[0][1], 1);
    dup2(pipes[1][1], 2);
    setenv("SEEMALLOC_CONF", "no_such_option:1", 1);
    setenv("MALLOC_CONF", "no_such_pair:1", 1);
    setenv("TCMALLOC_RELEASE_RATE", "no_such_rate", 1);
    setenv("HEAPPROFILE", "/tmp/secure-profile/is/not/written", 1);
    execl(program, program, "inside", NULL);
    _exit(5);
  }
  char* texts[2] = {out, err};
  for (int i = 0; i < 2; i++) {
    close(pipes[i][1]);
    ssize_t n = read(pipes[i][0], texts[i], size - 1);
    texts[i][n > 0 ? n : 0] = 0;
    close(pipes[i][0]);
  }
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  if (argc > 1) return inside();
  if (geteuid() != 0) cannot("needs root to make a setuid program of another user");
  expect_subject();

  char out[256], err[1024];
  run(argv[0], out, err, sizeof(err));
  EXPECT(strcmp(out, "0\n") == 0);
  const char* subject = getenv("EXPECT_SEEMALLOC");
  const char* said[] = {"no_such_option", "no_such_pair", "no_such_rate", "secure-profile"};
  for (size_t i = 0; subject != NULL && *subject != 0 && i < sizeof(said) / sizeof(said[0]); i++)
    EXPECT(strstr(err, said[i]) != NULL);

  char copy[] = "/tmp/secure-XXXXXX";
  int to = mkstemp(copy), from = open(argv[0], O_RDONLY);
  EXPECT(to >= 0 && from >= 0);
  struct stat status;
  EXPECT(fstat(from, &status) == 0);
  EXPECT(sendfile(to, from, NULL, (size_t)status.st_size) == status.st_size);
  EXPECT(fchown(to, 65534, 65534) == 0 && fchmod(to, 04755) == 0);
  close(to);
  close(from);

  run(copy, out, err, sizeof(err));
  unlink(copy);
  if (strcmp(out, "1\n") != 0) cannot("setuid programs do not work on this file system");
  EXPECT(strcmp(err, "") == 0);
  return ok();
}
