#include "child.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

namespace conform {

namespace {

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> result;
  auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (char** entry = environ; *entry != nullptr; entry++) {
    bool changed = false;
    for (const std::string& change : changes) changed |= name(change) == name(*entry);
    if (!changed) result.push_back(*entry);
  }
  for (const std::string& change : changes) {
    if (change.find('=') != std::string::npos) result.push_back(change);
  }
  return result;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Name, kernel wait channel and system call of each thread, and its stack if gdb is available.
std::string threads_of(pid_t pid) {
  std::ostringstream text;
  std::string folder = "/proc/" + std::to_string(pid) + "/task";
  if (DIR* tasks = opendir(folder.c_str())) {
    while (dirent* task = readdir(tasks)) {
      if (task->d_name[0] == '.') continue;
      text << "thread " << task->d_name;
      for (const char* file : {"comm", "wchan", "syscall"}) {
        std::string line;
        std::ifstream stream(folder + "/" + task->d_name + "/" + file);
        std::getline(stream, line);
        text << " " << line;
      }
      text << "\n";
    }
    closedir(tasks);
  }
  std::string gdb = "command -v gdb >/dev/null && timeout 20 gdb -p " + std::to_string(pid) +
                    " -batch -ex 'thread apply all bt 25' 2>/dev/null | grep -E '^(Thread|#)'";
  if (FILE* pipe = popen(gdb.c_str(), "r")) {
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe))
      text.write(buffer, static_cast<std::streamsize>(n));
    pclose(pipe);
  }
  return text.str();
}

// Appends the data that is available; closes a pipe at its end and sets its descriptor to -1.
void drain(int* fd, std::string* text) {
  char buffer[65536];
  while (*fd >= 0) {
    ssize_t n = read(*fd, buffer, sizeof(buffer));
    if (n > 0) {
      text->append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && errno == EINTR) continue;
    close(*fd);
    *fd = -1;
  }
}

[[noreturn]] void become(const Command& command, int out, int err) {
  std::vector<std::string> environment = merged_environment(command.environment);
  std::vector<char*> argv = pointers_to(command.argv);
  std::vector<char*> envp = pointers_to(environment);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(out, 1);
  dup2(err, 2);
  close_range(3, ~0u, 0);
  execvpe(argv[0], argv.data(), envp.data());
  dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

}  // namespace

bool Outcome::exited(int code) const {
  return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == code;
}
bool Outcome::killed_by(int signal) const {
  return !timed_out && WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

std::string Outcome::ending() const {
  if (timed_out) return "no end in its time";
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

std::string Outcome::all() const {
  return ending() + "\n--- stdout\n" + out + "--- stderr\n" + err +
         (timed_out ? "--- threads\n" + thread_states : "");
}

Outcome run(const Command& command) {
  Outcome outcome;
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) abort();
  pid_t pid = fork();
  if (pid < 0) abort();
  if (pid == 0) become(command, out[1], err[1]);
  setpgid(pid, pid);
  close(out[1]);
  close(err[1]);
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  fcntl(err[0], F_SETFL, O_NONBLOCK);

  double deadline = now() + command.seconds;
  for (;;) {
    pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    poll(fds, 2, out[0] < 0 && err[0] < 0 ? 1 : 20);
    bool ended = waitpid(pid, &outcome.status, WNOHANG) == pid;
    drain(&out[0], &outcome.out);
    drain(&err[0], &outcome.err);
    if (ended) break;
    if (now() < deadline) continue;
    outcome.timed_out = true;
    outcome.thread_states = threads_of(pid);
    kill(-pid, SIGKILL);
    waitpid(pid, &outcome.status, 0);
    break;
  }
  // Grandchildren may hold the pipes open; they are not waited for.
  for (int fd : {out[0], err[0]}) {
    if (fd >= 0) close(fd);
  }
  return outcome;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace conform
