// The control socket: how `seemalloc` talks to a running process.
//
// One Unix socket per process, PID.sock of mode 0600 in a folder of mode 0700 (socket_place.h). Off in privileged processes. The
// client sends lines, `COMMAND [ARGS]\n`; each is answered with `ok <length>\n` and so many bytes, or `error <text>\n`. Commands: see
// kCommands in commands.cc; they are for clients that may inspect this process, and the kernel decides which do (decision 0073):
//   prove          is answered with the number N of a descriptor: /proc/PID/fd/N is a link to `/memfd:seemalloc:SECRET (deleted)`, which
//                  can be read with the rights that ptrace asks for (PTRACE_MODE_READ_FSCREDS): same user and groups, no capability less
//                  than this process, and this process dumpable; or CAP_SYS_PTRACE
//   prove SECRET   opens this connection to all commands
// Nobody is waited for: answers are sent as the client reads them, and what a client leaves undone has its time.
// Threads: the helper thread alone; remove_socket() also from the exiting thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/api/reply.h"
#include "core/api/stall_watch.h"
#include "core/api/wake_up.h"
#include "core/os/descriptor.h"

namespace seemalloc {

class Control {
 public:
  // Opens the socket: again where the program has closed it or changed its user, or its file is gone.
  void keep_open();
  // Waits until there is something to serve, the kernel reports a stall, somebody wakes us, or `timeout_ns` has passed.
  void wait(StallWatch& stalls, WakeUp& wake_up, uint64_t timeout_ns);
  // Ends a wait, from another thread: nobody is listened to any more. For where the helper ends.
  void interrupt();
  // Answers what wait() found.
  void serve();
  // Forgets every descriptor without touching the files: in the child of fork they belong to the parent.
  void forget();

 private:
  static constexpr unsigned kPlaces = 8;
  static constexpr unsigned kRootPlaces = 2;  // besides, which nobody but root can fill
  static constexpr unsigned kClients = kPlaces + kRootPlaces;
  static constexpr unsigned kMaxLine = 1024;

  struct Client {
    os::Descriptor descriptor;
    bool ready = false;
    bool proven = false;
    uint64_t active_ns = 0;  // when it last sent or took something; before its proof, when it connected
    uint64_t asked_ns = 0;   // when it sent what is being answered
    os::Descriptor proof;
    char secret[33] = {};
    unsigned length = 0;
    char line[kMaxLine] = {};
    Reply reply;
  };

  void open();
  void accept_client();
  Client* place_for(unsigned user, uint64_t now_ns);
  static void let_go(Client& client);
  static void note_activity(Client& client, uint64_t now_ns);
  // These are false when the client is gone, or is to be.
  static bool serve_client(Client& client, uint64_t now_ns);
  static bool is_in_time(const Client& client, uint64_t now_ns);
  static bool read_client(Client& client, uint64_t now_ns);
  static bool answer_lines(Client& client, uint64_t now_ns);
  static bool send_reply(Client& client, uint64_t now_ns);
  static bool run_line(Client& client, char* line);
  static bool prove(Client& client, const char* secret);

  std::atomic<uint32_t> interrupted_{0};  // waited for where no descriptor is open
  os::Descriptor listener_;
  unsigned user_ = 0;
  bool listener_ready_ = false;
  uint64_t look_again_ns_ = 0;
  uint64_t accept_again_ns_ = 0;
  Client clients_[kClients];
};

// Removes this process's socket file, if it is still the one that it made. False when it has been done.
bool remove_socket();

}  // namespace seemalloc
