// The control socket under any bytes from several clients, in pieces of any length, with a clock
// that the input advances. Every complete line gets one well-formed answer, in order, until the
// connection ends.
//
// Input: the text that clients send. The last bytes choose who sends how much of it, and when.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/service/control.h"
#include "core/api/settings/runtime_options.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc {
namespace {

Control control;
StallWatch stalls;
WakeUp wake_up;
std::string folder, path;

void serve() {
  control.keep_open();
  control.wait(stalls, wake_up, 0);
  control.serve();
}

class Client {
 public:
  Client() { connect(); }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;

  void prove() {
    say("prove\n");
    hear();
    // The answer is the number of a descriptor.
    std::string link = std::filesystem::read_symlink("/proc/self/fd/" + last_).string(),
                name = "/memfd:seemalloc:";
    CHECK(link.rfind(name, 0) == 0);
    say("prove " + link.substr(name.size(), 32) + "\n");
    hear();
    CHECK(!unmapped_ && lines_ == 0 && last_.empty());
  }
  void say(const std::string& text) {
    if (unmapped_ || text.empty()) return;
    ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return;
    lines_ += static_cast<size_t>(std::count(text.begin(), text.begin() + sent, '\n'));
  }
  void hear() {
    static char part[65536];
    for (int idle = 0; idle < 3 && !unmapped_;) {
      serve();
      ssize_t got = recv(fd_, part, sizeof(part), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) unmapped_ = true;
      if (got < 0) idle++;
      if (got > 0) answers_.append(part, static_cast<size_t>(got));
    }
    check_answers();
  }
  // A client that hears everything in time has all of its answers.
  void finish() {
    hear();
    CHECK(unmapped_ || (answers_.empty() && lines_ == 0));
  }

 private:
  void connect() {
    for (int i = 0; i < 2; i++) serve();
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    for (int i = 0; i < 3; i++) serve();
  }
  // Removes complete answers: "ok LENGTH\n" and LENGTH bytes, or "error TEXT\n".
  void check_answers() {
    for (size_t end; (end = answers_.find('\n')) != std::string::npos;) {
      size_t bytes = end + 1;
      if (answers_.rfind("ok ", 0) == 0) {
        char* rest = nullptr;
        bytes += strtoull(answers_.c_str() + 3, &rest, 10);
        CHECK(*rest == '\n');
      } else {
        CHECK(answers_.rfind("error ", 0) == 0);
      }
      if (bytes > answers_.size()) return;
      last_ = answers_.substr(end + 1, bytes - end - 1);
      answers_.erase(0, bytes);
      CHECK(lines_ != 0);
      lines_--;
    }
  }

  int fd_ = -1;
  bool unmapped_ = false;
  size_t lines_ = 0;  // sent, and not answered yet
  // What has been received of the next answer; the text of the last one.
  std::string answers_, last_;
};

void reset_options() {
  for (size_t i = 0; i < options::kCount; i++) {
    options::Id id = static_cast<options::Id>(i);
    const options::Row& row = options::row(id);
    if (row.when != options::When::kAny || row.kind == options::Kind::kText) continue;
    FixedText<options::kMaxTextBytes> value, problem;
    options::print_default(id, value);
    CHECK(set_option(row.name, text_length(row.name), value.c_str(), problem) == SetOption::kDone);
  }
}

void run(FuzzedDataProvider& input) {
  std::string text = input.ConsumeRandomLengthString(3000);
  Client proven, stranger;
  proven.prove();
  for (size_t at = 0, steps = 0; at < text.size() && steps < 40; steps++) {
    Client& client = input.ConsumeIntegralInRange<unsigned>(0, 7) == 0 ? stranger : proven;
    size_t bytes = input.remaining_bytes() == 0 ? text.size() - at
                                                : input.ConsumeIntegralInRange<size_t>(1, 200);
    client.say(text.substr(at, bytes));
    at += std::min(bytes, text.size() - at);
    switch (input.ConsumeIntegralInRange<unsigned>(0, 7)) {
      case 0:
        os::advance_test_clock(input.ConsumeIntegralInRange<uint64_t>(0, 8 * kSecondNs));
        break;
      case 1: serve(); break;
      case 2: stranger.hear(); break;
      default: proven.hear();
    }
  }
  for (Client* client : {&proven, &stranger}) {
    client->say("\n");
    client->finish();
  }
}

}  // namespace
}  // namespace seemalloc

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using namespace seemalloc;
  char pattern[] = "/tmp/seemalloc-fuzz.XXXXXX";
  CHECK(mkdtemp(pattern) != nullptr);
  folder = pattern;
  path = folder + "/sockets/" + std::to_string(os::process_id()) + ".sock";
  fuzz::choose(options::Id::helper, "0");
  fuzz::choose(options::Id::socket_dir, (folder + "/sockets").c_str());
  // The command dump is refused by the system.
  fuzz::choose(options::Id::dump_prefix, (folder + "/missing/dump").c_str());
  atexit([] {
    remove_socket();
    std::filesystem::remove_all(folder);
  });
  os::advance_test_clock(kSecondNs);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace seemalloc;
  FuzzedDataProvider input(data, size);
  run(input);
  stop_cpu_profile();
  reset_options();
  os::advance_test_clock(60 * kSecondNs);  // traces that are not read end
  for (int i = 0; i < 3; i++) serve();
  return 0;
}
