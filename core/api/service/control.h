// The control socket: how `seemalloc` communicates with a running process.
//
// One Unix socket per process, PID.sock of mode 0600 in a directory of mode 0700
// (socket_directory.h). Off in privileged processes. The client sends lines, `COMMAND [ARGS]\n`;
// each is answered with `ok <length>\n` and that many bytes, or `error <text>\n`. Commands: see
// kCommands in commands.cc; they are reserved for clients that may inspect this process, as decided
// by the kernel (decision 0073):
//   prove          is answered with the number N of a descriptor: /proc/PID/fd/N is a link to
//   `/memfd:seemalloc:SECRET (deleted)`, which
//                  can be read with the rights that ptrace requires (PTRACE_MODE_READ_FSCREDS):
//                  same user and groups, at least this process's capabilities, and this process
//                  dumpable; or CAP_SYS_PTRACE
//   prove SECRET   enables all commands on this connection
// The helper thread never waits for a client: answers are sent as the client reads them, and
// incomplete requests time out. If all slots are taken, a new connection gets the slot of the one
// that has been idle or stalled longest.
// Threads: the helper thread only; remove_socket() also from the exiting thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/api/service/reply.h"
#include "core/api/service/stall_watch.h"
#include "core/api/service/wake_up.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/descriptor.h"

namespace seemalloc {

class Control {
 public:
  // Opens the socket, and reopens it if the program has closed it or changed its user, or its file
  // is gone.
  void keep_open();
  // Waits until a client needs service, the kernel reports a stall, another thread wakes the helper
  // thread, or `timeout_ns` has passed.
  void wait(StallWatch& stalls, WakeUp& wake_up, uint64_t timeout_ns);
  // Ends a wait in another thread; later connections are refused. Called when the helper thread
  // must end.
  void interrupt();
  // Answers what wait() found.
  void serve();
  // Forgets every descriptor without touching the files: in the child of fork they belong to the
  // parent.
  void forget();

 private:
  static constexpr unsigned kSlots = 8;
  static constexpr unsigned kRootSlots = 2;  // additional slots that only root can take
  static constexpr unsigned kClients = kSlots + kRootSlots;
  static constexpr unsigned kMaxLine = 1024;

  struct Client {
    os::CheckedDescriptor descriptor;
    bool ready = false;
    bool has_moved = false;  // bytes were received or sent in this round
    bool authenticated = false;
    // When it last sent or received something; before its proof, when it connected.
    uint64_t active_ns = 0;
    uint64_t requested_ns = 0;  // when it sent the request that is being answered
    os::CheckedDescriptor proof;
    char secret[33] = {};
    unsigned length = 0;
    char line[kMaxLine] = {};
    Reply reply;
  };

  void open();
  void accept_client();
  Client* slot_for(unsigned user, uint64_t now_ns);
  static bool is_evicted_before(const Client& a, const Client& b, uint64_t now_ns);
  static void disconnect(Client& client);
  static void note_activity(Client& client, uint64_t now_ns);
  // Each returns false when the client has disconnected, or must be dropped.
  static bool serve_client(Client& client, uint64_t now_ns);
  static bool has_time_left(const Client& client, uint64_t now_ns);
  static bool read_client(Client& client, uint64_t now_ns);
  static bool answer_lines(Client& client, uint64_t now_ns);
  static bool send_reply(Client& client, uint64_t now_ns);
  static bool run_line(Client& client, char* line);
  static bool authenticate(Client& client, const char* secret);

  std::atomic<uint32_t> interrupted_{0};  // waited for where no descriptor is open
  os::CheckedDescriptor listener_;
  unsigned user_ = 0;
  bool listener_ready_ = false;
  bool has_result_ = false;  // this round has waited, or has had an effect
  os::LoopBrake brake_;      // for rounds that have not
  uint64_t check_file_again_ns_ = 0;
  uint64_t accept_again_ns_ = 0;
  Client clients_[kClients];
};

// Removes this process's socket file, if it is still the one that it created. False if it has been
// removed already.
bool remove_socket();

}  // namespace seemalloc
