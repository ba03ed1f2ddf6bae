// Programs that manipulate descriptors: started with 0, 1 and 2 closed; closing all from 3 on (as
// daemons do) and using the numbers for their own files; passing open descriptors to a child. The
// allocator's socket and helper thread must not interfere.
//   closed_fds REPORT      starts itself in the three ways; the children write their complaints to
//   the file REPORT
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "expect.h"

static void work(void) {
  unsigned long state = 3;
  void* blocks[300] = {0};
  for (int i = 0; i < 30000; i++) {
    unsigned at = random_below(&state, 300);
    free(blocks[at]);
    blocks[at] = malloc(random_size(&state));
  }
  for (int i = 0; i < 300; i++) free(blocks[i]);
  usleep(300000);  // time for a helper thread to start and open its descriptors
  free(malloc(5 << 20));
}

static void complain(const char* report, const char* what, int fd) {
  int file = open(report, O_WRONLY | O_CREAT | O_APPEND, 0600);
  dprintf(file, "%s %d\n", what, fd);
  close(file);
}

// Descriptors 0–2 were closed at start, and the allocator must not use them.
static int standard_closed(const char* report) {
  work();
  for (int fd = 0; fd < 3; fd++) {
    if (fcntl(fd, F_GETFD) != -1) complain(report, "taken though the program had closed it:", fd);
  }
  for (int fd = 0; fd < 3; fd++) {
    int opened = open("/dev/null", O_RDWR);
    if (opened != fd) complain(report, "the program's own file should be lower than", opened);
  }
  return 0;
}

// Closes everything from 3 on and uses the numbers for its own files: the allocator must not write
// to them or close them.
static int all_closed(const char* report) {
  work();
  close_range(3, ~0u, 0);
  int files[32];
  for (int i = 0; i < 32; i++) {
    char name[] = "/tmp/closed-fds-XXXXXX";
    files[i] = mkstemp(name);
    unlink(name);
  }
  work();
  usleep(1200000);
  for (int i = 0; i < 32; i++) {
    struct stat status;
    if (fstat(files[i], &status) != 0) {
      complain(report, "the program's file was closed", files[i]);
    } else if (!S_ISREG(status.st_mode) || status.st_size != 0) {
      complain(report, "the program's file was written to", files[i]);
    }
  }
  return 0;
}

// After exec, only 0–2 and the descriptors that the program itself left open may exist.
static int inherited(const char* report) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == NULL) return 0;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    int fd = atoi(entry->d_name);
    char link[64], target[256] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (fd > 2 && fd != dirfd(folder) && readlink(link, target, sizeof(target) - 1) > 0) {
      // The child has its own allocator, which may have opened descriptors by now; those close on
      // exec.
      if (fcntl(fd, F_GETFD) & FD_CLOEXEC) continue;
      complain(report, target, fd);
    }
  }
  closedir(folder);
  return 0;
}
static int with_exec(const char* report, char* self) {
  work();
  execl(self, self, report, "inherited", NULL);
  return 1;
}

int main(int argc, char** argv) {
  EXPECT(argc >= 2);
  const char* report = argv[1];
  if (argc > 2) {
    if (strcmp(argv[2], "standard_closed") == 0) return standard_closed(report);
    if (strcmp(argv[2], "all_closed") == 0) return all_closed(report);
    if (strcmp(argv[2], "with_exec") == 0) return with_exec(report, argv[0]);
    if (strcmp(argv[2], "inherited") == 0) return inherited(report);
    return 2;
  }
  expect_subject();
  unlink(report);
  const char* ways[] = {"standard_closed", "all_closed", "with_exec"};
  for (int way = 0; way < 3; way++) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
      close_range(way == 0 ? 0 : 3, ~0u, 0);
      execl(argv[0], argv[0], report, ways[way], NULL);
      _exit(5);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  FILE* file = fopen(report, "r");
  if (file != NULL) {
    char line[512];
    while (fgets(line, sizeof(line), file) != NULL) fputs(line, stderr);
    return 1;
  }
  return ok();
}
