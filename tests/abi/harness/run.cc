// abi_run: runs one program of lifecycle/ and judges its outcome.
//   abi_run [--seconds N] [--env NAME=VALUE]... [--] PROGRAM [ARGUMENT]...
// It passes when the program exits with 0, printed "ok" and nothing else on stdout, and nothing on
// stderr: the library must stay silent in every environment. Exit status 77 (the program reports
// that it cannot run here) is passed on.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "child.h"

int main(int argc, char** argv) {
  conform::Command command;
  command.seconds = 600;
  int i = 1;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0) {
      command.seconds = atof(argv[++i]);
    } else if (i + 1 < argc && strcmp(argv[i], "--env") == 0) {
      command.environment.push_back(argv[++i]);
    } else {
      fprintf(stderr, "abi_run: what is %s?\n", argv[i]);
      return 2;
    }
  }
  for (; i < argc; i++) command.argv.push_back(argv[i]);
  if (command.argv.empty()) return 2;

  conform::Outcome outcome = conform::run(command);
  if (outcome.exited(77)) {
    fputs(outcome.out.c_str(), stdout);
    return 77;
  }
  if (outcome.exited(0) && outcome.out == "ok\n" && outcome.err.empty()) return 0;
  printf("expected exit 0, \"ok\" on stdout and silence on stderr; got %s\n",
         outcome.all().c_str());
  return 1;
}
