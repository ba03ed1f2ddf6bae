// A child process with its two outputs kept apart: how the tests run a program and look at what became of it.
//
// Threads: none. A child that outlives its time is killed with all its group; where its threads stood is kept.
#pragma once

#include <string>
#include <vector>

namespace conform {

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=VALUE set, NAME alone unset, over this process's own
  double seconds = 600;
};

struct Outcome {
  int status = 0;  // as waitpid gives it
  bool timed_out = false;
  std::string out;
  std::string err;
  std::string stuck_at;  // per thread, when it timed out

  bool exited(int code) const;
  bool died_of(int signal) const;
  // "exit 1", "signal 6", "no end after 20 s".
  std::string ending() const;
  // The ending and both outputs, for a failed test's message.
  std::string all() const;
};

Outcome run(const Command& command);

std::vector<std::string> lines_of(const std::string& text);

}  // namespace conform
