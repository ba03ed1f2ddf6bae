// The control socket, driven directly: authentication, clients that stop midway, and the socket's
// directory. Time passes only as the tests say.
#include "core/api/service/control.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/service/socket_directory.h"
#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/socket.h"

namespace seemalloc {
namespace {

using options::Id;
using options::OptionForTest;

int connect_to(const std::string& path) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

std::string socket_json() {
  FixedText<4096> text;
  write_socket_json(text);
  return text.c_str();
}

class ControlTest : public testing::Test {
 protected:
  void SetUp() override {
    os::advance_test_clock(kSecondNs);
    char pattern[] = "/tmp/control_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    place_ = std::make_unique<OptionForTest>(Id::socket_dir, (folder_ + "/sockets").c_str());
    ASSERT_EQ(remove_socket(), false);
  }
  void TearDown() override {
    remove_socket();
    control_.forget();
    for (int fd : clients_) close(fd);
    std::filesystem::remove_all(folder_);
  }

  std::string path() const {
    return folder_ + "/sockets/" + std::to_string(os::process_id()) + ".sock";
  }
  std::string second_path() const {
    return "/tmp/seemalloc-" + std::to_string(geteuid()) + "/" + std::to_string(os::process_id()) +
           ".sock";
  }

  void round() {
    control_.keep_open();
    control_.wait(stalls_, wake_up_, 0);
    control_.serve();
  }
  void rounds() {
    for (int i = 0; i < 5; i++) round();
  }
  // Lets time pass in which clients do nothing.
  void pass(uint64_t ns) {
    os::advance_test_clock(ns);
    rounds();
  }

  int connect() { return connect(path()); }
  int connect(const std::string& path) {
    round();
    int fd = connect_to(path);
    EXPECT_GE(fd, 0);
    clients_.push_back(fd);
    rounds();
    return fd;
  }
  static void say(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // The data that can be read; "<gone>" at its end.
  std::string heard(int fd) {
    std::string all;
    char part[65536];
    for (int idle = 0; idle < 3;) {
      round();
      ssize_t got = recv(fd, part, sizeof(part), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return all + "<gone>";
      if (got < 0) idle++;
      if (got > 0) all.append(part, static_cast<size_t>(got));
    }
    return all;
  }
  std::string ask(int fd, const std::string& line) {
    say(fd, line + "\n");
    return heard(fd);
  }
  std::string secret_of(int fd) {
    std::string answer = ask(fd, "prove"), number = answer.substr(answer.find('\n') + 1);
    EXPECT_EQ(answer.rfind("ok ", 0), 0u) << answer;
    std::string link = std::filesystem::read_symlink("/proc/self/fd/" + number).string();
    std::string prefix = "/memfd:seemalloc:";
    EXPECT_EQ(link.rfind(prefix, 0), 0u) << link;
    return link.substr(prefix.size(), 32);
  }
  void prove(int fd) { EXPECT_EQ(ask(fd, "prove " + secret_of(fd)), "ok 0\n"); }
  int connect_proven() {
    int fd = connect();
    prove(fd);
    return fd;
  }
  bool is_served(int fd) { return ask(fd, "ping") == "ok 4\npong"; }

  std::string folder_;
  std::unique_ptr<OptionForTest> place_;
  StallWatch stalls_;
  WakeUp wake_up_;
  Control control_;
  std::vector<int> clients_;
};

constexpr unsigned kSlots = 8;
// The number of places that this test's user can fill.
unsigned places() { return geteuid() == 0 ? kSlots + 2 : kSlots; }

// ---- authentication ----

TEST_F(ControlTest, NoCommandIsServedBeforeAProof) {
  int fd = connect();
  for (const char* command : {"ping", "version", "get sample", "set sample 1", "profile heap",
                              "dump", "dump /tmp/x", "stats", "trace start", "purge", ""}) {
    std::string answer = ask(fd, command);
    EXPECT_EQ(answer.rfind("error permission denied: prove first", 0), 0u)
        << command << ": " << answer;
  }
  prove(fd);
  EXPECT_TRUE(is_served(fd));
  EXPECT_EQ(ask(fd, "get sample").rfind("ok ", 0), 0u);
}

TEST_F(ControlTest, AProofIsOfOneConnectionAndAGuessEndsIt) {
  int first = connect(), second = connect();
  std::string secret = secret_of(first);
  EXPECT_EQ(ask(second, "prove " + secret), "<gone>");
  int third = connect();
  secret_of(third);
  EXPECT_EQ(ask(third, "prove " + secret), "<gone>");
  int fourth = connect();
  std::string old = secret_of(fourth), now = secret_of(fourth);
  EXPECT_NE(old, now);
  EXPECT_EQ(ask(fourth, "prove " + old), "<gone>");
  EXPECT_EQ(ask(connect(), "prove 00000000000000000000000000000000"), "<gone>");
  EXPECT_EQ(ask(first, "prove " + secret), "ok 0\n");
  EXPECT_EQ(ask(first, "prove " + secret), "<gone>") << "the secret is used up";
}

TEST_F(ControlTest, WithoutADescriptorOrRandomBitsThereIsNoProof) {
  int fd = connect();
  for (long call : {SYS_memfd_create, SYS_getrandom}) {
    os::FailCalls refuse(call, ENOSYS);
    std::string answer = ask(fd, "prove");
    EXPECT_EQ(answer.rfind("error permission denied: no descriptor", 0), 0u) << answer;
  }
  EXPECT_EQ(ask(fd, "ping").rfind("error permission denied", 0), 0u);
  prove(fd);
}

TEST_F(ControlTest, NoPathOfAClientsIsOpened) {
  int fd = connect_proven();
  std::string file = folder_ + "/profile";
  EXPECT_EQ(ask(fd, "dump " + file).rfind("error expected dump without arguments", 0), 0u);
  for (const char* option : {"dump_prefix", "dump_at_exit", "stats_at_exit"}) {
    EXPECT_EQ(ask(fd, std::string("set ") + option + " " + file)
                  .rfind("error only the program itself can set file names", 0),
              0u)
        << option;
    EXPECT_EQ(ask(fd, std::string("get ") + option), "ok 0\n");
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

// ---- clients that stop midway ----

TEST_F(ControlTest, DropsAClientThatDoesNotRead) {
  int stalled = connect_proven(), other = connect_proven();
  std::string many;
  for (int i = 0; i < 100; i++) many += "options\n";
  for (int i = 0; i < 4; i++) say(stalled, many), rounds();
  for (int i = 0; i < 3; i++) {
    EXPECT_TRUE(is_served(other));
    pass(kSecondNs);
  }
  say(stalled, "ping\n");
  pass(3 * kSecondNs);
  std::string all = heard(stalled);
  EXPECT_EQ(all.substr(all.size() - 6), "<gone>");
  EXPECT_GT(all.size(), size_t{64 * KiB}) << "it had been answered until its buffer was full";
  EXPECT_TRUE(is_served(other));
}

TEST_F(ControlTest, ASlowReaderGetsAllOfALongAnswer) {
  int slow = connect_proven();
  std::string one = ask(slow, "options");
  std::string many;
  constexpr size_t kTimes = 100;
  for (size_t i = 0; i < kTimes; i++) many += "options\n";
  say(slow, many);
  std::string all;
  char part[16 * KiB];
  for (int i = 0; i < 10000 && all.size() < kTimes * one.size(); i++) {
    round();
    if (i % 20 == 0) os::advance_test_clock(kSecondNs);
    ssize_t got = recv(slow, part, sizeof(part), MSG_DONTWAIT);
    if (got > 0) all.append(part, static_cast<size_t>(got));
    if (got == 0) break;
  }
  ASSERT_EQ(all.size(), kTimes * one.size());
  for (size_t i = 0; i < kTimes; i++)
    EXPECT_TRUE(all.compare(i * one.size(), one.size(), one) == 0) << i;
}

// poll does not report its socket writable until most of the buffer has been read, which takes this
// one longer than the time-out.
TEST_F(ControlTest, AVerySlowReaderIsNotTakenForOneThatDoesNotRead) {
  int slow = connect_proven();
  std::string one = ask(slow, "options"), many;
  constexpr size_t kTimes = 60;
  for (size_t i = 0; i < kTimes; i++) many += "options\n";
  say(slow, many);
  rounds();
  size_t read = 0;
  char part[10 * KiB];
  for (int i = 0; i < 1000 && read < kTimes * one.size(); i++) {
    pass(kSecondNs);
    ssize_t got = recv(slow, part, sizeof(part), MSG_DONTWAIT);
    ASSERT_TRUE(got > 0 || (got < 0 && errno == EAGAIN))
        << "let go after " << read << " of " << kTimes * one.size();
    if (got > 0) read += static_cast<size_t>(got);
  }
  EXPECT_EQ(read, kTimes * one.size());
}

// The kernel, or a filter, reports a descriptor as ready or a wait as interrupted for ever.
TEST_F(ControlTest, RoundsWithoutAResultAreSlowedDown) {
  int fd = connect_proven();
  auto ms_of_rounds = [&](int rounds) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; i++) {
      control_.keep_open();
      control_.wait(stalls_, wake_up_, kSecondNs);
      control_.serve();
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  say(fd, "ping\n");
  constexpr int kRounds = os::LoopBrake::kFreeReturns + 12;
  constexpr double kLeastMs = 400;
  {
    os::FailCalls refuse(SYS_ppoll, EINTR);
    EXPECT_GE(ms_of_rounds(kRounds), kLeastMs) << "ppoll";
  }
  {
    os::FailCalls refuse(SYS_recvfrom, EAGAIN);
    EXPECT_GE(ms_of_rounds(kRounds), kLeastMs) << "recvfrom";
  }
  EXPECT_EQ(heard(fd), "ok 4\npong");
  std::string many;
  for (int i = 0; i < 100; i++) many += "options\n";
  say(fd, many);
  os::FailCalls refuse(SYS_sendto, EAGAIN);
  EXPECT_GE(ms_of_rounds(kRounds), kLeastMs) << "sendto";
}

TEST_F(ControlTest, HalfALineIsNotWaitedFor) {
  int half = connect_proven(), byte_by_byte = connect_proven(), idle = connect_proven();
  say(half, "get sam");
  for (int i = 0; i < 4; i++) say(byte_by_byte, "x"), pass(kSecondNs);
  EXPECT_TRUE(is_served(idle));
  say(byte_by_byte, "x");
  pass(2 * kSecondNs);
  EXPECT_EQ(heard(half), "<gone>");
  EXPECT_EQ(heard(byte_by_byte), "<gone>");
  pass(3600 * kSecondNs);
  EXPECT_TRUE(is_served(idle)) << "one that is just idle stays";
}

TEST_F(ControlTest, ProofTimesOutDespiteTraffic) {
  int silent = connect(), busy = connect();
  for (int i = 0; i < 9; i++) {
    pass(kSecondNs);
    EXPECT_NE(ask(busy, "ping"), "<gone>");
  }
  pass(2 * kSecondNs);
  EXPECT_EQ(heard(silent), "<gone>");
  EXPECT_EQ(heard(busy), "<gone>");
}

// It has input in each round.
TEST_F(ControlTest, AFloodWithoutAProofEnds) {
  int flood = connect();
  bool ended = false;
  char answer[64 * KiB];
  for (int i = 0; i < 15 && !ended; i++) {
    os::advance_test_clock(kSecondNs);
    ended = send(flood, "ping\n", 5, MSG_NOSIGNAL) < 0;
    round();
    recv(flood, answer, sizeof(answer), MSG_DONTWAIT);
  }
  EXPECT_TRUE(ended);
}

TEST_F(ControlTest, IdleConnectionsDoNotBlockOthers) {
  std::vector<int> all;
  for (unsigned i = 0; i < places(); i++) all.push_back(connect_proven());
  EXPECT_EQ(heard(connect()), "error too many connections\n<gone>") << "they may be about to ask";
  pass(50 * kMillisecondNs);
  for (size_t i = 1; i < all.size(); i++) EXPECT_TRUE(is_served(all[i]));
  pass(60 * kMillisecondNs);
  int fresh = connect_proven();
  EXPECT_TRUE(is_served(fresh));
  EXPECT_EQ(heard(all[0]), "<gone>") << "the one that has been idle longest";
  for (size_t i = 1; i < all.size(); i++) EXPECT_TRUE(is_served(all[i])) << i;
}

// Each fills all slots with clients of one kind. A new one is served within half a second.
TEST_F(ControlTest, StalledConnectionsDoNotBlockOthers) {
  std::string many;
  for (int i = 0; i < 100; i++) many += "options\n";
  const std::function<void(int)> kinds[] = {
      [](int) {},                                          // connects only
      [&](int fd) { say(fd, "pro"); },                     // sends half a line
      [&](int fd) { ask(fd, "ping"); },                    // talks, and proves nothing
      [&](int fd) { prove(fd); },                          // is idle
      [&](int fd) { prove(fd), say(fd, "get sam"); },      // sends half a request
      [&](int fd) { prove(fd), say(fd, many), rounds(); }  // does not read
  };
  for (size_t kind = 0; kind < std::size(kinds); kind++) {
    SCOPED_TRACE(kind);
    std::vector<int> all;
    for (unsigned i = 0; i < places(); i++) {
      all.push_back(connect());
      kinds[kind](all.back());
    }
    pass(500 * kMillisecondNs);
    int fresh = connect_proven();
    EXPECT_TRUE(is_served(fresh));
    // Those that are left do not take the slots of busy clients.
    for (int i = 0; i < 20; i++) {
      os::advance_test_clock(50 * kMillisecondNs);
      EXPECT_TRUE(is_served(fresh));
      connect();
    }
    EXPECT_TRUE(is_served(fresh));
    pass(20 * kSecondNs);
  }
}

TEST_F(ControlTest, UnprovenClientsAreEvictedFirst) {
  std::vector<int> proven;
  for (unsigned i = 0; i + 3 < kSlots; i++) proven.push_back(connect_proven());
  pass(kSecondNs);
  std::vector<int> unproven;
  for (unsigned i = kSlots - 3; i < places(); i++) unproven.push_back(connect());
  pass(3 * kSecondNs);
  for (int fd : unproven) ask(fd, "ping");
  EXPECT_TRUE(is_served(connect_proven()));
  EXPECT_TRUE(is_served(connect_proven()));
  for (int fd : proven) EXPECT_TRUE(is_served(fd));
}

TEST_F(ControlTest, SlotsAreReservedForRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  for (unsigned i = 0; i < kSlots; i++) connect_proven();
  EXPECT_TRUE(is_served(connect_proven()));
}

TEST_F(ControlTest, RandomBytesAreAnsweredOrRefused) {
  unsigned seed = seed_for_test();
  std::mt19937 random(seed);
  SCOPED_TRACE(seed);
  const char* words[] = {"prove",
                         "prove ",
                         "get ",
                         "set ",
                         "sample",
                         "dump ",
                         "trace ",
                         "start",
                         "read 1",
                         "map 0x",
                         "cpu stop ",
                         "profile ",
                         "\n",
                         "\n",
                         "\n",
                         " ",
                         "99999999999999999999",
                         "stats",
                         "threads",
                         "stats brief",
                         "options"};
  for (int i = 0; i < 300; i++) {
    int fd = random() % 2 == 0 ? connect_proven() : connect();
    std::string bytes;
    for (unsigned part = random() % 60; part != 0; part--) {
      if (random() % 3 == 0) {
        for (unsigned n = random() % 80; n != 0; n--) bytes += static_cast<char>(random());
      } else {
        bytes += words[random() % std::size(words)];
      }
    }
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    rounds();
    if (random() % 2 == 0) heard(fd);
    close(fd);
    clients_.pop_back();
    pass(random() % (3 * kSecondNs));
  }
  pass(60 * kSecondNs);
  EXPECT_TRUE(is_served(connect_proven()));
}

// ---- the directory of the socket ----

TEST_F(ControlTest, AFileThatWasRemovedIsMadeAgain) {
  int before = connect_proven();
  std::filesystem::remove(path());
  rounds();
  EXPECT_FALSE(std::filesystem::exists(path())) << "not looked for in each round";
  pass(3 * kSecondNs);
  EXPECT_TRUE(is_served(connect_proven()));
  EXPECT_TRUE(is_served(before));
  std::filesystem::remove_all(folder_ + "/sockets");
  pass(3 * kSecondNs);
  EXPECT_TRUE(is_served(connect_proven()));
  EXPECT_TRUE(remove_socket());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// For example, in another pid namespace.
TEST_F(ControlTest, ProcessWithReusedIdKeepsItsSocket) {
  round();
  std::filesystem::remove(path());
  int theirs = os::listen_unix(path().c_str());
  ASSERT_GE(theirs, 0);
  os::FileIdentity file = os::identity(path().c_str());
  pass(3 * kSecondNs);
  EXPECT_NE(socket_json().find(second_path()), std::string::npos) << socket_json();
  EXPECT_NE(socket_json().find("another process listens there"), std::string::npos)
      << socket_json();
  int fd = connect(second_path());
  prove(fd);
  EXPECT_TRUE(is_served(fd));
  EXPECT_TRUE(remove_socket());
  EXPECT_EQ(os::identity(path().c_str()), file);
  EXPECT_FALSE(std::filesystem::exists(second_path()));
  close(theirs);
}

TEST_F(ControlTest, ALeftoverIsReplaced) {
  std::filesystem::create_directory(folder_ + "/sockets");
  ASSERT_EQ(chmod((folder_ + "/sockets").c_str(), 0700), 0);
  close(os::listen_unix(path().c_str()));
  EXPECT_TRUE(is_served(connect_proven()));
}

TEST_F(ControlTest, UsesAnotherDirectoryAndKeepsTheCause) {
  std::string sockets = folder_ + "/sockets", elsewhere = folder_ + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  ASSERT_EQ(chmod(elsewhere.c_str(), 0700), 0);
  struct Case {
    const char* why;
    std::function<void()> prepare;
  };
  std::vector<Case> cases{
      {"it is open to other users", [&] { mkdir(sockets.c_str(), 0755); }},
      {"it is a file or a link", [&] { std::ofstream(sockets) << "x"; }},
      {"it is a file or a link", [&] { std::filesystem::create_symlink(elsewhere, sockets); }},
  };
  if (geteuid() == 0) {
    cases.push_back({"it belongs to another user", [&] {
                       mkdir(sockets.c_str(), 0700);
                       EXPECT_EQ(chown(sockets.c_str(), 65534, 65534), 0);
                     }});
  }
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    c.prepare();
    int fd = connect(second_path());
    prove(fd);
    EXPECT_TRUE(is_served(fd));
    EXPECT_NE(socket_json().find("\"directory\":\"" + sockets + "\",\"reason\":\"" + c.why + "\""),
              std::string::npos)
        << socket_json();
    remove_socket();
    control_.forget();
    std::filesystem::remove_all(sockets);
  }
  EXPECT_TRUE(is_served(connect_proven()));
  EXPECT_NE(socket_json().find("\"refused\":[]"), std::string::npos) << socket_json();
}

TEST_F(ControlTest, WithoutADirectoryTheThreadNameShowsTheCause) {
  auto name = [] {
    std::ifstream comm("/proc/thread-self/comm");
    std::string text;
    std::getline(comm, text);
    return text;
  };
  for (auto [call, error] : std::vector<std::pair<long, int>>{{SYS_bind, ENOSPC},
                                                              {SYS_fchmodat, EPERM},
                                                              {SYS_listen, ENOMEM},
                                                              {SYS_renameat2, EROFS},
                                                              {SYS_socket, EMFILE},
                                                              {SYS_statx, ENOSYS}}) {
    SCOPED_TRACE(call);
    {
      os::FailCalls refuse(call, error);
      pass(10 * kSecondNs);
      EXPECT_EQ(name(), "seemalloc:" + std::to_string(error));
      EXPECT_NE(socket_json().find("\"path\":\"\""), std::string::npos) << socket_json();
      unsigned before = refuse.refusals();
      pass(4 * kSecondNs);
      EXPECT_EQ(refuse.refusals(), before) << "not tried in each round";
    }
    pass(10 * kSecondNs);
    EXPECT_EQ(name(), "seemalloc");
    EXPECT_TRUE(is_served(connect_proven()));
    std::filesystem::remove_all(folder_ + "/sockets");
  }
}

TEST_F(ControlTest, RefusedCallsWhileItServesAreNoCrash) {
  for (long call :
       {SYS_accept4, SYS_getsockopt, SYS_recvfrom, SYS_sendto, SYS_ppoll, SYS_fcntl, SYS_mmap}) {
    SCOPED_TRACE(call);
    for (unsigned every : {1u, 2u, 3u}) {
      int fd = connect_proven();
      {
        os::FailCalls refuse(call, EPERM, every);
        for (const char* line : {"ping\n", "stats\n", "threads\n", "options\n", "map\n"}) {
          send(fd, line, strlen(line), MSG_NOSIGNAL);
          int other = connect_to(path());
          rounds();
          if (other >= 0) close(other);
        }
      }
      pass(20 * kSecondNs);
      EXPECT_TRUE(is_served(connect_proven())) << every;
    }
  }
}

}  // namespace
}  // namespace seemalloc
