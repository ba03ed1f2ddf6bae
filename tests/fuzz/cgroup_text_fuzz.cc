// The kernel's texts about control groups, and the reader of lines behind them. The reader returns
// the lines that std::getline would, except those that do not fit its buffer.
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "core/os/kernel/fault.h"
#include "core/os/process/cgroup_text.h"
#include "core/os/process/lines.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::os {
namespace {

constexpr size_t kLineBytes = 1024;  // of the buffer in Lines

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (end - at < kLineBytes) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void check_lines(const std::string& text, const std::vector<std::string>& expected) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  AnswerCall answer(SYS_openat, fd);
  Lines lines("/proc/self/mountinfo");
  size_t count = 0;
  for (Slice line; lines.next(&line); count++)
    CHECK(count < expected.size() && expected[count] == std::string(line.at, line.length));
  CHECK(count == expected.size());
}

void parse(const std::string& text) {
  // Exactly as long: reads beyond are found.
  std::unique_ptr<char[]> copy(new char[text.size()]);
  text.copy(copy.get(), text.size());
  Slice line{copy.get(), text.size()}, path{"/a/b", 4};
  uint64_t number = 0;
  size_t limit = 0;
  for (const char* controller : {"", "memory", "cpu"}) {
    if (parse_group(line, controller, &path)) CHECK(path.length != 0 && path.at[0] == '/');
    FixedText<256> root, point;
    if (parse_mount(line, controller, root, point)) {
      CHECK(!root.truncated() && !point.truncated());
      FixedText<512> directory;
      group_directory({root.c_str(), root.size()}, {point.c_str(), point.size()}, path, directory);
      CHECK(directory.truncated() || (directory.size() >= point.size() &&
                                      memcmp(directory.c_str(), point.c_str(), point.size()) == 0));
    }
  }
  parse_limit(line, &limit);
  parse_keyed(line, "inactive_file", &number);
  CHECK(parse_cpu_max(line) <= 65536);
  list_has(line, "rw");
}

}  // namespace
}  // namespace seemalloc::os

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines = seemalloc::os::lines_of(text);
  seemalloc::os::check_lines(text, lines);
  for (const std::string& line : lines) seemalloc::os::parse(line);
  return 0;
}
