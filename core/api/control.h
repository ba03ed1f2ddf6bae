// The control socket: how `seemalloc` talks to a running process.
//
// One Unix socket per process, /tmp/seemalloc-UID/PID.sock, mode 0600 in a folder of mode 0700; only the same user and
// root are answered. Off in privileged processes. The client sends lines, `COMMAND [ARGS]\n`; each is answered with
// `ok <length>\n` and so many bytes, or `error <text>\n`. Commands: see kCommands in control.cc.
// Threads: the helper thread alone; remove_socket() also from the exiting thread.
#pragma once

#include <cstdint>

#include "core/api/stall_watch.h"
#include "core/api/wake_up.h"
#include "core/os/descriptor.h"

namespace seemalloc {

class Control {
 public:
  // Opens the socket, again where the program has closed it or changed its user.
  void keep_open();
  // Waits until there is something to serve, the kernel reports a stall, somebody wakes us, or `timeout_ns` has passed.
  void wait(StallWatch& stalls, WakeUp& wake_up, uint64_t timeout_ns);
  // Ends a wait, from another thread: nobody is listened to any more. For where the helper ends.
  void interrupt() const;
  // Answers what wait() found.
  void serve();
  // Forgets every descriptor without touching the files: in the child of fork they belong to the parent.
  void forget();

 private:
  static constexpr unsigned kMaxClients = 8;
  static constexpr unsigned kMaxLine = 1024;

  struct Client {
    os::Descriptor descriptor;
    bool ready = false;
    unsigned length = 0;
    char line[kMaxLine] = {};
  };

  void accept_client();
  // False when the client is gone.
  bool read_client(Client& client);

  os::Descriptor listener_;
  unsigned user_ = 0;
  bool given_up_ = false;
  bool listener_ready_ = false;
  uint64_t accept_again_ns_ = 0;
  Client clients_[kMaxClients];
};

// Removes this process's socket file, if it is this process's.
void remove_socket();

}  // namespace seemalloc
