// A child process with stdout and stderr captured separately: how the tests run a program and
// inspect the outcome.
//
// Threads: none. A child that exceeds its time is killed with its process group; the position of
// each of its threads is recorded.
#pragma once

#include <string>
#include <vector>

namespace conform {

struct Command {
  std::vector<std::string> argv;
  // NAME=VALUE sets, NAME alone unsets; relative to this process's environment.
  std::vector<std::string> environment;
  double seconds = 600;
};

struct Outcome {
  int status = 0;  // as returned by waitpid
  bool timed_out = false;
  std::string out;
  std::string err;
  std::string thread_states;  // position of each thread, if it timed out

  bool exited(int code) const;
  bool killed_by(int signal) const;
  // "exit 1", "signal 6", "no end after 20 s".
  std::string ending() const;
  // The ending and both outputs, for the message of a failed test.
  std::string all() const;
};

Outcome run(const Command& command);

std::vector<std::string> lines_of(const std::string& text);

}  // namespace conform
