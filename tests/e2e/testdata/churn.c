// A program for `seemalloc compare`: `churn` allocates and frees in one thread, holds 32 MiB for a
// moment, and ends with half of it. `churn serve` listens on a socket until it is ended. `churn
// sleep` sleeps for a minute.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kBlocks = 4096, kBytes = 8192, kRounds = 5 };

static char* blocks[kBlocks];

static void churn(void) {
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kBlocks; i++) {
      free(blocks[i]);
      blocks[i] = malloc(kBytes);
      memset(blocks[i], round, kBytes);
    }
  }
}

static int serve(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  usleep(100 * 1000);
  if (bind(listener, (struct sockaddr*)&any, sizeof any) != 0 || listen(listener, 1) != 0) return 1;
  for (;;) pause();
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "sleep") == 0) return (int)sleep(60);
  churn();
  if (count > 1 && strcmp(arguments[1], "serve") == 0) return serve();
  usleep(100 * 1000);
  for (int i = 0; i < kBlocks / 2; i++) free(blocks[i]);
  usleep(100 * 1000);
  printf("done\n");
  return 0;
}
